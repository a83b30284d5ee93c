package attempt

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// repo is a repository with a commit of the files a, b and dir/c; sh runs scripts in it.
func repo(t *testing.T) (w Worktree, sh func(script string) string) {
	t.Helper()
	top := t.TempDir()
	sh = func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir, cmd.Env = top, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s\n%s", script, out)
		return strings.TrimSpace(string(out))
	}
	sh("git init -q -b main; git config user.name a; git config user.email a@e; mkdir dir; echo 1 >a; echo 1 >b; echo 1 >dir/c; git add .; git commit -qm start")
	return Worktree(top), sh
}

// Whatever a run leaves, the next one starts with the files of the commit, those of the
// user, and ignored ones; all else is in the ref.
func TestSetAside(t *testing.T) {
	for _, tc := range []struct {
		name, user, run string
		files           int
		check           string // script that must succeed; $R is the ref
	}{
		{name: "nothing", run: "true"},
		{name: "committed", run: "echo 2 >a; git commit -qam two"},
		{
			"modified and new", "", "echo 2 >a; mkdir -p new/deep; echo n >new/deep/x", 2,
			`test "$(cat a)" = 1; test ! -e new; test "$(git show $R:a)" = 2; test "$(git show $R:new/deep/x)" = n`,
		},
		{"staged, and changed again", "", "echo 2 >a; echo n >x; git add .; echo 3 >a", 2, `test "$(cat a)" = 1; test ! -e x; test "$(git show $R:a)" = 3`},
		{"staged and removed", "", "echo n >x; git add x; rm x; echo 2 >a", 2, `! git show $R:x`},
		{"deleted", "", "git rm -q a; rm b; rm -r dir", 3, `test "$(cat a b dir/c)" = "$(printf '1\n1\n1')"; test -z "$(git ls-tree $R)"`},
		{"only deleted from the index", "", "git rm -q --cached a", 1, `test "$(cat a)" = 1`},
		{"a file became a directory", "", "rm a; mkdir a; echo 2 >a/x", 2, `test "$(cat a)" = 1; test "$(git show $R:a/x)" = 2`},
		{"a directory became a link", "", "rm -r dir; ln -s /etc dir", 2, `test "$(cat dir/c)" = 1; test "$(git show $R:dir)" = /etc; test -e /etc/passwd`},
		{"executable", "", "chmod +x a", 1, `test ! -x a; git ls-tree $R a | grep -q ^100755`},
		{"unusual names", "", `echo 1 >'*'; echo 1 >' x'; echo 1 >"$(printf 'n\nl')"; echo 2 >a`, 4, `test "$(git ls-tree $R | wc -l)" = 6`},
		{"ignored files stay", "echo out >.git/info/exclude", "echo 2 >out; echo 2 >a", 1, `test "$(cat out)" = 2`},
		{"a repository stays", "", "git init -q sub; git -C sub -c user.name=a -c user.email=a commit -q --allow-empty -m s; echo 2 >a", 1, `test -d sub/.git; test "$(cat a)" = 1`},
		{"a repository without commits", "", "mkdir new; git init -q new/sub; echo 2 >new/sub/x; echo 2 >a", 1, `git add -A --dry-run; test "$(git -C new/sub status --porcelain)" = "?? x"`},
		{"the user's repository without commits", "git init -q sub", "echo 2 >a", 1, `! git -C sub rev-parse -q --verify HEAD`},
		{
			"the loop's own files stay", "", "echo x >.ralph; git add .ralph; git commit -qm x; rm .ralph; mkdir .ralph; echo b >.ralph/tasks.db; echo 2 >a", 1,
			`test "$(cat .ralph/tasks.db a)" = "$(printf 'b\n1')"; rm -r .ralph; git checkout -q .ralph`,
		},
		{
			"a conflict", "", "git checkout -qb o; echo 2 >a; git commit -qam o; git checkout -q main; echo 3 >a; git commit -qam t; ! git merge -q o", 1,
			`git show $R:a | grep -q '<<<<'; test "$(cat a)" = 3; test ! -e .git/MERGE_HEAD`,
		},
		{
			"a conflict beside the user's files", "echo u >mine", "git checkout -qb o; echo 2 >a; git commit -qam o; git checkout -q main; echo 3 >a; git commit -qam t; ! git merge -q o", 1,
			`test "$(cat a mine)" = "$(printf '3\nu')"; test ! -e .git/MERGE_HEAD`,
		},
		{
			"a conflict with a deleted file", "", "git checkout -qb o; git rm -q a; git commit -qm o; git checkout -q main; echo 3 >a; git commit -qam t; ! git merge -q o; echo 4 >a; echo 2 >b", 2,
			`test "$(cat a b)" = "$(printf '3\n1')"; test "$(git show $R:a)" = 4; test ! -e .git/MERGE_HEAD`,
		},
		{
			"a completed merge that is not committed", "git checkout -qb o; echo 2 >x; git add x; git commit -qm o; git checkout -q main; echo 3 >a; git commit -qam t", "git merge -q --no-commit o", 1,
			`test ! -e x; test ! -e .git/MERGE_HEAD`,
		},
		{
			"commits picked in part", "git checkout -qb o; echo 2 >a; git commit -qam o; echo 2 >b; git commit -qam p; git checkout -q main; echo 3 >a; git commit -qam t", "! git cherry-pick main..o 2>/dev/null", 1,
			`test ! -e .git/sequencer; test ! -e .git/CHERRY_PICK_HEAD`,
		},
		{
			"the user's merge stays", "git checkout -qb o; echo 2 >a; git commit -qam o; git checkout -q main; echo 3 >a; git commit -qam t; ! git merge -q o", "echo 2 >x", 1,
			`test -e .git/MERGE_HEAD; grep -q '<<<<' a`,
		},
		{
			"the user's patches stay", "echo 2 >a; git commit -qam o; git format-patch -q -1 --stdout >.git/p; git reset -q --hard HEAD~; echo 3 >a; git commit -qam t; ! git am -q .git/p 2>/dev/null", "echo 2 >x", 1,
			`test -e .git/rebase-apply/applying`,
		},
		{
			"the user's files stay", "echo u >a; echo u >mine; git rm -q --cached b; git add mine", "echo 2 >dir/c; echo 2 >x", 2,
			`test "$(cat a mine)" = "$(printf 'u\nu')"; git status --porcelain | grep -q '^D  b'; git status --porcelain | grep -q '^A  mine'`,
		},
		{"the user's files that the run has changed stay", "echo u >a; echo u >mine", "echo r >>a; echo r >>mine; echo 2 >x", 1, `grep -q r a; grep -q u mine`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, sh := repo(t)
			sh(tc.user + "\n")
			before, err := w.State(t.Context())
			assert.NilError(t, err)
			sh(tc.run)
			saved, err := w.SetAside(t.Context(), attemptref.ID{Task: "auth/02", N: 2}, before)
			assert.NilError(t, err)
			assert.Equal(t, saved.Files, tc.files)
			if tc.files == 0 {
				assert.Equal(t, saved.Ref, "")
				return
			}
			sh("R=" + saved.Ref + "\n" + tc.check)
			left, err := w.State(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, strings.Join(left.Files, " "), strings.Join(slices.Compact(slices.Sorted(slices.Values(append(before.Files, repositories(left.Files)...)))), " "))
			assert.DeepEqual(t, w.List(t.Context()), map[string][]string{"auth/02": {saved.Ref}})
			assert.Equal(t, sh("ls .git | grep ralph- || :"), "")
		})
	}
}

func repositories(paths []string) (dirs []string) {
	for _, path := range paths {
		if strings.HasSuffix(path, "/") {
			dirs = append(dirs, path)
		}
	}
	return dirs
}

// Without its filter, a file is not what the repository has.
func TestFilteredFilesAreNotSetAside(t *testing.T) {
	w, sh := repo(t)
	sh(`git config filter.x.clean 'tr a-z A-Z'; git config filter.x.smudge 'tr A-Z a-z'; printf 's* filter=x\nb filter=y\n' >.gitattributes; echo one >s; git add .; git commit -qm s`)
	sh("echo two >s; echo three >s2; echo 2 >a; echo 2 >b") // no filter y is configured
	saved, err := w.SetAside(t.Context(), attemptref.ID{Task: "t"}, State{})
	assert.NilError(t, err)
	assert.Equal(t, saved.Files, 2)
	sh(`test "$(cat s s2 a b)" = "$(printf 'two\nthree\n1\n1')"; test "$(git show ` + saved.Ref + `:s)" = ONE`)
}

// What a filter should have encoded stays in the sandbox, whose git has the filter's name only.
func TestRawFilesAreSetAside(t *testing.T) {
	for _, tc := range []struct {
		name, run string
		raw       bool
	}{
		{"other files", "echo 2 >a", false},
		{"changed", "echo two >s", true},
		{"new", "echo new >s2", true},
		{"removed", "rm s", false},
		{"without the attributes", "echo two >s; rm .gitattributes", true},
		{"with new attributes", "echo 'a filter=x' >.gitattributes; echo 2 >a", true},
		{"Git LFS", "echo 'a filter=lfs' >.gitattributes; echo 2 >a", true},
		{"a pointer", `echo 'a filter=lfs' >.gitattributes; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1\n' 0 >a`, false},
		{"a filter that the user has not", "echo 'a filter=y' >.gitattributes; echo 2 >a", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, sh := repo(t)
			sh(`git config filter.x.required false; echo 's* filter=x' >.gitattributes; echo one >s; git add .; git commit -qm s`)
			sh(tc.run)
			saved, err := w.SetAside(t.Context(), attemptref.ID{Task: "t"}, State{})
			assert.NilError(t, err)
			assert.Equal(t, saved.Raw, tc.raw)
			assert.Equal(t, sh("git status --porcelain"), "")
		})
	}
}

// The next agent can take over what was set aside.
func TestSetAsideIsApplied(t *testing.T) {
	w, sh := repo(t)
	sh("echo 2 >a; echo n >x; rm b")
	saved, err := w.SetAside(t.Context(), attemptref.ID{Task: "t"}, State{})
	assert.NilError(t, err)
	sh("echo 2 >dir/c; git commit -qam other; git cherry-pick --no-commit " + saved.Ref)
	sh(`test "$(cat a x dir/c)" = "$(printf '2\nn\n2')"; test ! -e b`)
}

// Before the first commit, all files are uncommitted.
func TestSetAsideWithoutCommits(t *testing.T) {
	w, sh := repo(t)
	sh("git checkout -q --orphan fresh; git rm -rqf .; echo u >mine")
	before, err := w.State(t.Context())
	assert.NilError(t, err)
	sh("echo 1 >x; git add x")
	saved, err := w.SetAside(t.Context(), attemptref.ID{Task: "t"}, before)
	assert.NilError(t, err)
	sh(`test ! -e x; test -e mine; test "$(git status --porcelain)" = "?? mine"; git show ` + saved.Ref + ":x")
}

// A worktree that git cannot restore keeps its changes.
func TestSetAsideFailsWithoutLoss(t *testing.T) {
	w, sh := repo(t)
	sh("rm a; mkdir a; echo u >a/mine")
	sh("echo 2 >a/x; echo 2 >b")
	_, err := w.SetAside(t.Context(), attemptref.ID{Task: "t"}, State{Files: []string{"a/mine"}})
	assert.ErrorContains(t, err, "setting uncommitted changes aside: git read-tree: ")
	sh(`test "$(cat a/mine a/x b)" = "$(printf 'u\n2\n2')"`)
}
