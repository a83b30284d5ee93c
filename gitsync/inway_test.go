package gitsync

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// contents returns all files below a directory but those of the main git directory, with
// their content; links have their target, and directories nothing.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	assert.NilError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		assert.NilError(t, err)
		name, err := filepath.Rel(root, path)
		assert.NilError(t, err)
		switch {
		case name == ".git":
			return fs.SkipDir
		case e.Type() == fs.ModeSymlink:
			found[name], err = os.Readlink(path)
		case !e.IsDir():
			var content []byte
			content, err = os.ReadFile(path)
			found[name] = string(content)
		}
		return err
	}))
	return found
}

// A fast-forward overwrites and removes nothing that only the user has, and writes into no
// other repository or worktree of the user.
func TestFastForwardOverUnluckyTrees(t *testing.T) {
	t.Parallel()
	const ignore = "mkdir -p .git/info; echo '*.env' > .git/info/exclude; "
	const bare = "mkdir -p box/Objects box/refs; echo x > box/HEAD; "
	for _, tc := range []struct {
		name, setUp string // setUp is before the clone, and may commit
		user, agent string
		inTheWay    string // empty if the branch arrives
		merged      bool   // what the user has changed is there afterwards
	}{
		// Repositories of the user.
		{name: "a repository", user: "git init -q box", agent: "mkdir box; echo x > box/x", inTheWay: "box"},
		{name: "a repository, deeper", user: "mkdir out; git init -q out/box", agent: "mkdir -p out/box/in; echo x > out/box/in/x", inTheWay: "out/box"},
		{name: "a repository in a directory with files", user: "git init -q dir/box", agent: "mkdir dir/box; echo x > dir/box/x", inTheWay: "dir/box"},
		{name: "an ignored repository", user: ignore + "git init -q box.env", agent: "mkdir box.env; echo x > box.env/x", inTheWay: "box.env"},
		{name: "a worktree", user: "git worktree add -q trees/other; echo mine > trees/other/mine", agent: "mkdir -p trees/other; echo x > trees/other/x", inTheWay: "trees/other"},
		{name: "a worktree with the same file", user: "git worktree add -q trees/other; echo x > trees/other/x", agent: "mkdir -p trees/other; echo x > trees/other/x", inTheWay: "trees/other"},
		{name: "a directory beside worktrees", user: "git worktree add -q trees/other", agent: "mkdir -p trees/more; echo x > trees/more/x"},
		{name: "a link as .git", user: "mkdir box; ln -s /nowhere box/.git", agent: "mkdir box; echo x > box/x", inTheWay: "box"},
		{name: "another case of .git", user: "mkdir box; echo 'gitdir: ../x' > box/.GIT", agent: "mkdir box; echo x > box/x", inTheWay: "box"},
		{name: "a git directory", user: bare, agent: "mkdir box; echo x > box/config", inTheWay: "box"},
		{name: "a hook of a git directory", user: bare, agent: "mkdir -p box/hooks; echo x > box/hooks/pre-commit", inTheWay: "box"},
		{name: "part of a git directory", user: "mkdir -p box/refs; echo x > box/HEAD", agent: "mkdir box; echo x > box/config"},
		{name: "a file in the place of a repository", user: "git init -q box; echo mine > box/mine", agent: "echo x > box", inTheWay: "box"},
		{name: "a link in the place of a repository", user: ignore + "git init -q box.env", agent: "ln -s /etc box.env", inTheWay: "box.env"},
		{name: "a file in the place of a directory with a repository", setUp: "mkdir box; echo x > box/x; git add .; git commit -qm box", user: "git init -q box/in", agent: "rm -r box; echo x > box", inTheWay: "box/in"},
		{name: "a repository that is tracked", user: "git init -q dir", agent: "echo x > dir/c.txt; echo y > dir/d.txt"},
		{
			name: "a file in the place of a submodule", setUp: `git clone -q . ../sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/../sub" sub; git commit -qm sub`,
			user: "echo mine > sub/mine", agent: "git rm -q --cached sub; rm -rf sub; echo x > sub", inTheWay: "sub",
		},
		{
			name: "a file in a submodule", setUp: `git clone -q . ../sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/../sub" sub; git commit -qm sub`,
			user: "echo mine > sub/mine", agent: "git rm -q --cached sub; rm -rf sub; mkdir sub; echo x > sub/x", inTheWay: "sub",
		},
		{
			name: "a directory in the place of a file that the user has untracked and ignored",
			user: "mkdir -p .git/info; echo /a.txt > .git/info/exclude; git rm -q --cached a.txt; echo mine > a.txt", agent: "rm a.txt; mkdir a.txt; echo x > a.txt/x", inTheWay: "a.txt",
		},
		{
			name: "a removed submodule", setUp: `git clone -q . ../sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/../sub" sub; git commit -qm sub`,
			user: "echo mine > sub/mine", agent: "git rm -q --cached sub; rm -rf sub",
		},

		// Files become directories or links, and the reverse.
		{name: "a file in the place of a directory with an ignored file", user: ignore + "echo mine > dir/mine.env", agent: "rm -r dir; echo x > dir", inTheWay: "dir/mine.env"},
		{name: "a link in the place of a directory with an ignored file", user: ignore + "mkdir dir/in; echo mine > dir/in/mine.env", agent: "rm -r dir; ln -s a.txt dir", inTheWay: "dir/in/mine.env"},
		{name: "a file in the place of a directory with an untracked file", user: "echo mine > dir/mine", agent: "rm -r dir; echo x > dir", inTheWay: "dir/mine"},
		{name: "a file in the place of a directory with a staged file", user: "echo mine > dir/mine; git add dir", agent: "rm -r dir; echo x > dir", inTheWay: "dir/mine"},
		{name: "a file in the place of a directory with a changed file", user: "echo mine > dir/c.txt", agent: "rm -r dir; echo x > dir", inTheWay: "dir/c.txt"},
		{name: "a file in the place of a directory", user: "mkdir dir/empty", agent: "rm -r dir; echo x > dir"},
		{name: "a file in the place of an untracked directory", user: "mkdir new; echo mine > new/mine", agent: "echo x > new", inTheWay: "new/mine"},
		{name: "a file in the place of an ignored directory", user: ignore + "mkdir new.env; echo mine > new.env/mine", agent: "echo x > new.env", inTheWay: "new.env/mine"},
		{name: "a directory in the place of a file", user: ":", agent: "rm a.txt; mkdir a.txt; echo x > a.txt/x"},
		{name: "a directory in the place of a changed file", user: "echo mine > a.txt", agent: "rm a.txt; mkdir a.txt; echo x > a.txt/x", inTheWay: "a.txt"},
		{name: "a directory in the place of an ignored file", user: ignore + "echo mine > new.env", agent: "mkdir new.env; echo x > new.env/x", inTheWay: "new.env"},
		{name: "a directory in the place of a staged file", user: "echo mine > new; git add new", agent: "mkdir new; echo x > new/x", inTheWay: "new"},
		{name: "a file that the user has made a directory", user: ignore + "rm a.txt; mkdir a.txt; echo mine > a.txt/mine.env", agent: "echo x > a.txt", inTheWay: "a.txt/mine.env"},
		{name: "a directory that the user has made a file", user: "rm -r dir; echo mine > dir", agent: "echo x > dir/c.txt", inTheWay: "dir"},
		{name: "a removed directory that the user has made an ignored file", user: ignore + "rm -r dir; echo mine > dir; echo dir > .git/info/exclude", agent: "rm -r dir; echo x > dir", inTheWay: "dir"},
		{name: "a removed directory with an ignored file", user: ignore + "echo mine > dir/mine.env", agent: "rm -r dir"},

		// Links.
		{name: "a link in the place of a directory", user: "mkdir ../out; ln -s ../out new", agent: "mkdir new; echo x > new/x", inTheWay: "new"},
		{name: "a link to a directory with the same file", user: "ln -s dir new", agent: "mkdir new; echo c > new/c.txt", inTheWay: "new"},
		{name: "an ignored link", user: ignore + "ln -s a.txt new.env", agent: "echo x > new.env", inTheWay: "new.env"},
		{name: "a tracked link becomes a directory", setUp: "ln -s dir new; git add .; git commit -qm link", user: ":", agent: "rm new; mkdir new; echo c > new/c.txt"},
		{name: "a directory that the user has replaced by a link", user: "mv dir ../moved; ln -s ../moved dir", agent: "echo x > dir/c.txt", inTheWay: "dir"},

		// Staged and hidden changes.
		{name: "a removal that is staged", user: "git rm -q --cached a.txt", agent: "echo x > a.txt", inTheWay: "a.txt"},
		{name: "a file that git is told not to check", user: "git update-index --skip-worktree a.txt; echo mine > a.txt", agent: "echo x > a.txt", inTheWay: "a.txt"},
		{name: "a file that git is told to take for unchanged", user: "git update-index --assume-unchanged a.txt; echo mine > a.txt", agent: "echo x > a.txt", inTheWay: "a.txt"},
		{name: "the same change", user: "echo x > a.txt", agent: "echo x > a.txt", merged: true},
		{name: "an untracked file with the same content", user: "echo x > new", agent: "echo x > new", inTheWay: "new"},
		{name: "an ignored file with the same content", user: ignore + "echo x > new.env", agent: "echo x > new.env", inTheWay: "new.env"},
		{name: "an untracked link to the same target", user: "ln -s a.txt new", agent: "ln -s a.txt new", inTheWay: "new"},
		{name: "the same change, staged", user: "echo x > a.txt; git add a.txt", agent: "echo x > a.txt", merged: true},

		// Sparse checkouts: the sandbox's is the user's.
		{name: "a file outside of a sparse checkout", setUp: "git sparse-checkout set --no-cone dir", user: "echo mine > a.txt", agent: `git update-index --cacheinfo "100644,$(echo x | git hash-object -w --stdin),a.txt"; git update-index --skip-worktree a.txt`, inTheWay: "a.txt"},
		{name: "a new file outside of a sparse checkout", setUp: "git sparse-checkout set --no-cone dir", user: "echo mine > new", agent: "echo x > new; git add --sparse new", inTheWay: "new"},
		{name: "a repository outside of a sparse checkout", setUp: "git sparse-checkout set --no-cone dir", user: "git init -q box", agent: "mkdir box; echo x > box/x; git add --sparse box", inTheWay: "box"},

		// File systems that ignore case have one file for both names, as a hard link does here.
		{name: "another case of an untracked file", setUp: "git config core.ignorecase true", user: "echo mine > new; ln new NEW", agent: "echo x > NEW", inTheWay: "NEW"},
		{name: "another case of a tracked file", setUp: "git config core.ignorecase true", user: "ln a.txt A.txt", agent: "echo x > A.txt; git -c core.ignorecase=false add A.txt", inTheWay: "A.txt"},
		{name: "a renaming to another case", setUp: "git config core.ignorecase true", user: "ln a.txt A.txt", agent: "git mv a.txt A.txt"},
		{name: "a renaming to another case with a change", setUp: "git config core.ignorecase true", user: "ln a.txt A.txt", agent: "git mv a.txt A.txt; echo x > A.txt"},
		{name: "a renaming of a changed file to another case", setUp: "git config core.ignorecase true", user: "echo mine > a.txt; ln a.txt A.txt", agent: "git mv a.txt A.txt; echo x > A.txt", inTheWay: "A.txt"},
		{name: "another normalisation of an untracked file", setUp: "git config core.precomposeunicode true", user: `n=$(printf '\303\244'); echo mine > $n; ln $n $(printf 'a\314\210')`, agent: `echo x > $(printf 'a\314\210')`, inTheWay: "a\u0308"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.run(w.root, nil, "sh", "-ec", tc.setUp)
			w.createSandbox()
			w.run(w.root, nil, "sh", "-ec", tc.user)
			before, status, tip := contents(t, w.root), w.git("status", "--porcelain", "--ignored"), w.tip("main")
			outside := contents(t, w.dir)
			maps.DeleteFunc(outside, func(name, _ string) bool {
				return !strings.HasPrefix(name, "out/") && !strings.HasPrefix(name, "moved/") && !strings.HasPrefix(name, "repo/.git/worktrees/")
			})
			mine := contents(t, w.root)
			maps.DeleteFunc(mine, func(_, content string) bool { return content != "mine\n" })
			w.inSandbox(tc.agent + "; git add -A; git commit -qm agent")
			theirs := w.sandboxGit("rev-parse", "main")

			res := w.fetch()
			after := contents(t, w.root)
			all := contents(t, w.dir)
			for name, content := range outside {
				assert.Check(t, is.Equal(all[name], content), name)
			}
			for name, content := range mine {
				assert.Check(t, is.Equal(after[name], content), name)
			}
			if tc.inTheWay != "" {
				assert.Assert(t, res.Conflict != nil, "the branch is at the agent's commit")
				assert.Equal(t, res.Conflict.Kind, fileInTheWay, res.Conflict.Error())
				assert.Equal(t, res.Conflict.Detail, tc.inTheWay)
				if info, err := os.Lstat(filepath.Join(w.root, tc.inTheWay)); err == nil && info.IsDir() {
					assert.Equal(t, res.Conflict.Hint(), "move it away; the next command fast-forwards the branch")
				}
				assert.DeepEqual(t, after, before)
				assert.Equal(t, w.git("status", "--porcelain", "--ignored"), status)
				assert.Equal(t, w.tip("main"), tip)
				assert.Equal(t, w.tip(res.Conflict.Ref), theirs)
				return
			}
			assert.Assert(t, res.Conflict == nil, "%v", res.Conflict)
			assert.Equal(t, w.tip("main"), theirs)
			assert.Equal(t, w.git("diff", "--name-only", "--ignore-submodules", "HEAD"), "")
			assert.Equal(t, w.git("ls-files", "--deleted"), "")
			if tc.merged {
				assert.DeepEqual(t, after, before)
			}
		})
	}
}
