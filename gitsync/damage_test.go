//go:build unix

package gitsync

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// asAgent makes an unprivileged user, who finds the git directory as in a sandbox, the owner of the clone, and returns the
// user's shell.
func (w *fixture) asAgent() Shell {
	w.t.Helper()
	assert.NilError(w.t, os.Symlink(w.gitDir, filepath.Join(w.work, ".git")))
	var agent *syscall.SysProcAttr
	if os.Getuid() == 0 {
		assert.NilError(w.t, os.Chmod(filepath.Dir(w.dir), 0o711))
		w.run(w.dir, nil, "chown", "-R", "65534:65534", w.gitDir, w.work)
		agent = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = w.work, stdin, stdout, &stderr, w.env(), agent
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return &ScriptError{Code: exit.ExitCode(), Stderr: stderr.String()}
		}
		return err
	}
}

// Whatever an agent does to the git directory, the next command finds a clone that works, and no commit is lost that was
// still readable.
func TestDamagedGitDirectoryWorksAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ damage, why string }{
		{"chmod 000 .git/", ""},
		{"chmod 000 .git/objects", ""},
		{"chmod 000 .git/objects/*", ""},
		{"chmod 000 .git/refs/heads", ""},
		{"find .git/ -depth -mindepth 1 -exec chmod 000 {} +", ""},
		{"chmod -R a-w .git/", ""},
		{"chmod 000 .git/index", ""},
		{"chmod 000 .git/config", ""},
		{"chmod 000 .git/HEAD", ""},
		{"touch .git/index.lock .git/HEAD.lock .git/config.lock .git/refs/heads/main.lock; chmod 000 .git/HEAD.lock", ""},
		{"mkfifo .git/index.lock", ""},
		{"git config core.bare true", "not that of the working tree"},
		{"git config core.worktree /", "not that of the working tree"},
		{"git config core.worktree ../..", "not that of the working tree"},
		{"git config core.repositoryFormatVersion 99", "not a git directory"},
		{"git config extensions.unknown x; git config core.repositoryFormatVersion 1", "not a git directory"},
		{"git config include.path pipe; mkfifo .git/pipe", "named pipe pipe"},
		{"rm .git/HEAD; mkfifo .git/HEAD", "named pipe HEAD"},
		{"rm .git/config; mkfifo .git/config", "named pipe config"},
		{"rm .git/index; mkfifo .git/index", "named pipe index"},
		{"mkfifo .git/packed-refs", "named pipe packed-refs"},
		{"mkfifo .git/refs/heads/other", "named pipe refs/heads/other"},
		{"mkfifo .git/shallow", "named pipe shallow"},
		{"mkfifo .git/commondir", "named pipe commondir"},
		{"rm -rf .git/info; mkdir .git/info; mkfifo .git/info/exclude", "named pipe info/exclude"},
		{"mkfifo .git/objects/info/alternates", "named pipe objects/info/alternates"},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tip := w.commit("a.txt", "not fetched\n")
			sh := w.asAgent()
			assert.NilError(t, sh(ctx, tc.damage, nil, nil, io.Discard))

			_, err := w.repo.Push(ctx, sh)
			if broken, is := errors.AsType[*BrokenError](err); is {
				assert.Equal(t, broken.Why, tc.why)
				_, lost, err := w.repo.Repair(ctx, sh)
				assert.NilError(t, errors.Join(lost, err))
				_, err = w.repo.Push(ctx, sh)
				assert.NilError(t, err)
			} else {
				assert.NilError(t, err)
				assert.Equal(t, tc.why, "")
			}
			assert.Equal(t, w.tip("main"), tip)
			assert.NilError(t, sh(ctx, "test -z \"$(git status --porcelain)\" && echo more >> a.txt && git commit -qam more && git branch x", nil, nil, io.Discard))
			res, err := w.repo.Fetch(ctx, sh, true)
			assert.NilError(t, err)
			assert.Equal(t, res.Commits, 1)
		})
	}
}

// A git volume that was removed is filled again, beside the files of the clone.
func TestLostGitDirectoryIsRestored(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{true, false} {
		w := newSandbox(t)
		w.sandboxGit("branch", "side", w.commit("a.txt", "fetched\n"))
		_, err := w.repo.Fetch(t.Context(), w.sh, ended)
		assert.NilError(t, err)
		tip := w.tip("main")
		w.writeInside("b.txt", "not committed\n")
		assert.NilError(t, os.RemoveAll(w.gitDir))
		assert.NilError(t, os.Mkdir(w.gitDir, 0o755))
		w.fill()

		_, done, err := w.repo.PushUnchanged(t.Context(), w.sh)
		assert.NilError(t, err)
		assert.Assert(t, !done)
		_, err = w.repo.Push(t.Context(), w.sh)
		broken, is := errors.AsType[*BrokenError](err)
		assert.Assert(t, is, "%v", err)
		assert.Equal(t, broken.Why, "it does not have the commits of its branch main")
		_, lost, err := w.repo.Repair(t.Context(), w.sh)
		assert.NilError(t, errors.Join(lost, err))
		w.push()
		assert.Equal(t, w.sandboxGit("rev-parse", "main", "side"), tip+"\n"+tip)
		assert.Equal(t, w.sandboxGit("status", "--porcelain"), " M b.txt")
	}
}
