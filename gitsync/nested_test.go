//go:build unix

package gitsync

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Other tools add worktrees in the repository while its sandbox exists.
func TestNestedWorktreeAddedLater(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, path string }{
		{"below a folder of a tool", ".claude/worktrees/one"},
		{"in the root", "fourth"},
		{"special characters", "wt\t日本"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			path := filepath.Join(w.root, filepath.FromSlash(tc.path))
			w.git("worktree", "add", "-q", "-b", "side", path)
			assert.NilError(t, os.WriteFile(filepath.Join(path, "notes.txt"), []byte("user's\n"), 0o600))

			res, err := w.repo.Push(t.Context(), w.sh)
			assert.NilError(t, err)
			assert.DeepEqual(t, res.Nested, []string{path})
			notes := strings.Join(res.Notes(), "\n")
			assert.Assert(t, is.Contains(notes, "can change worktrees that were added after the sandbox was created"))
			assert.Assert(t, is.Contains(notes, "Hint: hide them from the agent with --recreate"))

			// The agent's commits do not contain its files.
			w.write("b.txt", "agent's\n")
			w.sandboxGit("add", "-A")
			w.sandboxGit("commit", "-q", "-m", "all")
			res = w.fetch()
			assert.Equal(t, res.Commits, 1)
			assert.Equal(t, len(res.Repositories), 0)
			assert.Equal(t, w.git("show", "--format=", "--name-only", "main"), "b.txt")

			// It is reported once.
			res, err = w.repo.Push(t.Context(), w.sh)
			assert.NilError(t, err)
			assert.Equal(t, len(res.Nested), 0)
		})
	}
}

// An agent that sees a worktree must not make the user's git there follow it.
func TestNestedWorktreeWithAnotherGitFile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(dotGit string) error
	}{
		{"another git directory", func(dotGit string) error {
			return os.WriteFile(dotGit, []byte("gitdir: "+filepath.Dir(dotGit)+"/evil\n"), 0o600)
		}},
		{"a repository", func(dotGit string) error { return os.Mkdir(dotGit, 0o700) }},
		{"a link", func(dotGit string) error { return os.Symlink("/", dotGit) }},
		{"a named pipe", func(dotGit string) error { return syscall.Mkfifo(dotGit, 0o600) }},
		{"a large file", func(dotGit string) error {
			f, err := os.Create(dotGit)
			if err == nil {
				err = f.Truncate(1 << 40)
			}
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			path := filepath.Join(w.root, "fourth")
			w.git("worktree", "add", "-q", "-b", "side", path)
			w.push()
			dotGit := filepath.Join(path, ".git")
			assert.NilError(t, os.Remove(dotGit))
			w.push() // git removes the file first

			assert.NilError(t, tc.make(dotGit))
			_, err := w.repo.Push(t.Context(), w.sh)
			assert.ErrorContains(t, err, "fourth was added after the sandbox was created: ")
			_, _, err = w.repo.PushUnchanged(t.Context(), w.sh)
			assert.ErrorContains(t, err, "fourth was added after the sandbox was created: ")

			assert.NilError(t, os.RemoveAll(dotGit))
			w.git("worktree", "repair")
			w.push()
		})
	}
}
