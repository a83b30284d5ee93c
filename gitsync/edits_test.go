package gitsync

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync/index"
	"github.com/docker-ralph/docker-ralph/hint"
)

func (w *fixture) fetchEdits() *Edits {
	w.t.Helper()
	e, _ := w.fetchNested()
	return e
}

func (w *fixture) fetchNested() (e *Edits, nested []string) {
	w.t.Helper()
	e, nested, err := w.repo.FetchEdits(w.t.Context(), w.sh)
	assert.NilError(w.t, err)
	return e, nested
}

func (w *fixture) apply() {
	w.t.Helper()
	assert.NilError(w.t, w.repo.ApplyEdits(w.t.Context(), w.fetchEdits()))
}

func TestApplyEdits(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	assert.Assert(t, c.fetchEdits() == nil)
	c.write("mine.txt", "mine\n")
	c.git("add", "mine.txt")
	c.inSandbox(`echo agent > a.txt; rm b.txt; mkdir -p deep nested; echo x > deep/x; ln -s a.txt link; echo y > dir/c.txt; git add dir
(unset GIT_DIR GIT_WORK_TREE; git init -q nested; echo x > nested/x; git init -q more; cd more; git commit -q --allow-empty -m x); echo x > 'a "name"'`)
	status := c.inSandbox("git status --porcelain")
	e, nested := c.fetchNested()
	assert.DeepEqual(t, nested, []string{"more/", "nested/"})
	assert.DeepEqual(t, e.Paths, []string{`a "name"`, "a.txt", "b.txt", "deep/x", "dir/c.txt", "link"})
	assert.Equal(t, c.inSandbox("git status --porcelain"), status, "the sandbox is as before")
	assert.Equal(t, c.inSandbox("ls $(git rev-parse --git-dir) | grep edits || :"), "")

	c.apply()
	assert.Equal(t, c.git("status", "--porcelain"), " M a.txt\n D b.txt\n M dir/c.txt\nA  mine.txt\n?? \"a \\\"name\\\"\"\n?? deep/\n?? link")
	assert.Equal(t, c.read("a.txt")+c.read("link")+c.read("deep/x"), "agent\nagent\nx\n")
	c.git("fsck", "--strict", "--no-dangling")

	// What was applied is the sandbox's still, and follows it.
	c.inSandbox("echo more >> a.txt; echo new > b.txt; rm link; echo z > deep/z; git checkout -q HEAD -- dir")
	c.apply()
	assert.Equal(t, c.read("a.txt")+c.read("b.txt")+c.read("deep/z")+c.read("dir/c.txt"), "agent\nmore\nnew\nz\nc\n")
	assert.Equal(t, c.git("status", "--porcelain"), " M a.txt\n M b.txt\nA  mine.txt\n?? \"a \\\"name\\\"\"\n?? deep/")
	c.apply()
}

// What was applied is not in the way of the same edits, nor of others, whatever kind of change it is.
func TestApplyEditsOfAnyKindTwice(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.git("config", "core.safecrlf", "false")
	w.run(w.root, nil, "sh", "-ec", `ln -s a.txt link; ln -s a.txt other; echo x > run; echo x > plain; printf a.txt > text; git add -A; git commit -qm more`)
	w.createSandbox()
	w.inSandbox(`rm -r dir; echo f > dir; rm link; mkdir link; echo x > link/x; rm other; printf a.txt > other; rm text; ln -s a.txt text
chmod +x run; rm plain; mkdir -p deep; echo '#!' > deep/run; chmod +x deep/run; git mv a.txt moved.txt`)
	w.apply()
	first := contents(t, w.root)
	assert.DeepEqual(t, first, contents(t, w.work))
	w.apply()
	assert.DeepEqual(t, contents(t, w.root), first)

	w.inSandbox(`rm dir; mkdir dir; echo again > dir/c.txt; chmod -x run; echo more >> deep/run; rm text; printf x > text; git mv moved.txt a.txt`)
	w.apply()
	assert.DeepEqual(t, contents(t, w.root), contents(t, w.work))
	assert.Equal(t, w.git("diff", "--summary"), w.inSandbox("git diff --summary"))

	w.inSandbox("git reset -q --hard; git clean -qfd")
	assert.Check(t, slices.Contains(w.fetchEdits().Paths, "deep/run"))
	w.apply()
	w.assertClean()
	assert.Assert(t, w.fetchEdits() == nil)
}

// Files that git does not take are no part of the rest.
func TestEditsThatGitDoesNotTake(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	c.inSandbox(`git config core.autocrlf input; git config core.safecrlf true; printf 'x\r\n' > a.txt`)
	_, _, err := c.repo.FetchEdits(t.Context(), c.sh)
	assert.ErrorContains(t, err, "CRLF would be replaced by LF in a.txt")
}

// Neither a changed file of the user, nor one that git does not know, is overwritten, and then
// nothing is applied.
func TestApplyEditsKeepsTheUsersFiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, user, agent, path string
	}{
		{"changed", "echo mine > a.txt", "echo agent > a.txt", "a.txt"},
		{"staged", "echo mine > a.txt; git add a.txt", "echo agent > a.txt", "a.txt"},
		{"changed after an earlier apply", "echo mine > b.txt", "echo again > b.txt", "b.txt"},
		{"untracked", "echo mine > new", "echo agent > new", "new"},
		{"ignored", "mkdir -p .git/info; echo ignored > .git/info/exclude; echo mine > ignored", "echo agent > ignored; git add -f ignored", "ignored"},
		{"changed and removed by the agent", "echo mine > a.txt", "rm a.txt", "a.txt"},
		{"a directory where a file comes", "mkdir new; echo mine > new/x", "echo agent > new", "new/x"},
		{"a file where a directory comes", "echo mine > new", "mkdir new; echo agent > new/x", "new"},
		{"a link where a directory comes", "ln -s /tmp new", "mkdir new; echo agent > new/x", "new"},
		{"a repository", "git init -q new", "mkdir new; echo agent > new/x", "new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newSandbox(t)
			c.inSandbox("echo agent > b.txt")
			c.apply()
			c.run(c.root, nil, "sh", "-ec", tc.user)
			status := c.git("status", "--porcelain", "--ignored")
			content := c.run(c.root, nil, "sh", "-c", "cat a.txt b.txt new* ignored; ls -l new* | cut -c1")
			c.inSandbox("echo agent > dir/c.txt; " + tc.agent)
			err := c.repo.ApplyEdits(t.Context(), c.fetchEdits())
			assert.ErrorContains(t, err, ` "`+tc.path+`"`)
			assert.Equal(t, len(hint.Of(err)), 1)
			assert.Equal(t, c.git("status", "--porcelain", "--ignored"), status)
			assert.Equal(t, c.run(c.root, nil, "sh", "-c", "cat a.txt b.txt new* ignored; ls -l new* | cut -c1"), content)
			assert.Equal(t, c.read("dir/c.txt"), "c\n")
		})
	}
}

// Edits belong to a commit.
func TestApplyEditsOfAnotherCommit(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	c.inSandbox("echo agent > a.txt")
	e := c.fetchEdits()
	c.write("mine.txt", "mine\n")
	c.git("add", "mine.txt")
	c.git("commit", "-qm", "mine")
	assert.ErrorContains(t, c.repo.ApplyEdits(t.Context(), e), "are based on")
	c.assertClean()
}

// What a killed command has written is applied again, and its lock does not stay.
func TestApplyEditsAfterAnInterruption(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	c.inSandbox("seq 9 > a.txt; seq 9 > part.txt; echo new > new.txt; rm b.txt; echo mine > mine.txt")
	e := c.fetchEdits()
	st, err := c.repo.readState()
	assert.NilError(t, err)
	st.Pending = &pending{From: e.Base, To: e.Commit, Token: index.NewToken(), Edits: true, Writing: true}
	assert.NilError(t, c.repo.save(st))
	assert.NilError(t, index.New(c.repo.git, st.Pending.Token).Begin())
	c.run(c.root, nil, "sh", "-c", "seq 3 > a.txt; seq 3 > part.txt; echo new > new.txt; rm b.txt; echo other > mine.txt")

	assert.ErrorContains(t, c.repo.ApplyEdits(t.Context(), c.fetchEdits()), `your "mine.txt" would be overwritten`)
	assert.Equal(t, c.git("status", "--porcelain"), "?? mine.txt")
	assert.NilError(t, os.Remove(filepath.Join(c.root, "mine.txt")))
	c.apply()
	assert.Equal(t, c.git("status", "--porcelain"), " M a.txt\n D b.txt\n?? mine.txt\n?? new.txt\n?? part.txt")
	_, err = os.Stat(filepath.Join(c.root, ".git", "index.lock"))
	assert.Assert(t, os.IsNotExist(err))
}

// A commit of the sandbox with what was applied arrives over it.
func TestCommittedEditsArrive(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	c.inSandbox("echo agent > a.txt; echo new > new.txt; echo later > later.txt")
	c.apply()
	c.inSandbox("git add a.txt new.txt; git commit -qm agent")
	assert.Equal(t, c.fetch().Commits, 1)
	assert.Equal(t, c.git("status", "--porcelain"), "?? later.txt")
	c.write("later.txt", "mine\n")
	c.inSandbox("git add later.txt; git commit -qm agent")
	assert.Equal(t, fetchConflict(t, c, fileInTheWay).Detail, "later.txt")
}

// An agent's git can print another commit than the script makes.
func TestHostileEdits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, commit, want string }{
		{"a git directory", `git update-index --add --cacheinfo 100644,$(git hash-object -w a.txt),x/y; t=$(printf '100644 blob %s\t.git\n' $(git hash-object -w a.txt) | git mktree); c=$(git commit-tree -p HEAD -m x $t)`, "hasDotgit"},
		{"a submodule", `t=$(printf '160000 commit %s\tsub\n' $(git rev-parse HEAD) | git mktree); c=$(git commit-tree -p HEAD -m x $t)`, `submodule "sub"`},
		{"no parent", `c=$(git commit-tree -m x $(git write-tree))`, ""},
		{"no commit", "c=0123456789012345678901234567890123456789", ""},
		{"no ID", "c=--upload-pack=x", "unexpected output"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newSandbox(t)
			commit := c.inSandbox(tc.commit + "; echo $c")
			_, _, err := c.repo.FetchEdits(t.Context(), func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
				if script == editsScript {
					_, err := io.WriteString(stdout, commit+"\n")
					return err
				}
				return c.sh(ctx, script, args, stdin, stdout)
			})
			assert.Assert(t, err != nil)
			assert.Assert(t, is.Contains(err.Error(), tc.want))
			c.assertClean()
		})
	}
}
