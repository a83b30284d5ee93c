package gitsync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// Commits that were fetched, and those that still can be, are not lost.
func TestBrokenGitDirectoryIsRepaired(t *testing.T) {
	t.Parallel()
	base := newSandbox(t)
	base.sandboxGit("branch", "side", base.commit("a.txt", "fetched\n"))
	base.write("b.txt", "user's\n")
	base.git("commit", "-q", "-m", "user: b", "b.txt")
	assert.Equal(t, base.fetch().Conflict.Kind, diverged)
	fetched := base.tip("refs/ralph/ralph-test/main")
	last := base.commit("dir/c.txt", "not fetched\n")
	base.writeInside("b.txt", "not committed\n")
	for _, tc := range []struct {
		name, why string
		saved     bool // what was not fetched before can be fetched
		breakIt   func(w *fixture)
	}{
		{"everything is removed", "not a git directory", false, func(w *fixture) {
			entries, err := os.ReadDir(w.gitDir)
			assert.NilError(w.t, err)
			for _, e := range entries {
				assert.NilError(w.t, os.RemoveAll(filepath.Join(w.gitDir, e.Name())))
			}
		}},
		{"garbage as HEAD", "not a git directory", true, func(w *fixture) { w.corrupt("HEAD") }},
		{"garbage as index", "unreadable index", true, func(w *fixture) { w.corrupt("index") }},
		{"garbage as config", "not a git directory", true, func(w *fixture) { w.corrupt("config") }},
		{"no refs", "not a git directory", false, func(w *fixture) {
			assert.NilError(w.t, os.RemoveAll(filepath.Join(w.gitDir, "refs")))
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.gitDir, "refs"), nil, 0o400))
		}},
		{"no objects", "the current commit is missing", false, func(w *fixture) {
			assert.NilError(w.t, os.RemoveAll(filepath.Join(w.gitDir, "objects")))
			assert.NilError(w.t, os.Mkdir(filepath.Join(w.gitDir, "objects"), 0o755))
		}},
		{"no commit", "is missing", false, func(w *fixture) {
			id := w.sandboxGit("rev-parse", "HEAD")
			assert.NilError(w.t, os.Remove(filepath.Join(w.gitDir, "objects", id[:2], id[2:])))
		}},
		{"garbage as packed refs", "unreadable refs", false, func(w *fixture) { w.corrupt("packed-refs") }},
		{"another commondir", "not a git directory", true, func(w *fixture) {
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.gitDir, "commondir"), []byte("/nowhere\n"), 0o644))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := base.clone(t).openRepo()
			tc.breakIt(w)
			record := filepath.Join(w.gitDir, attemptref.BegunFile)
			assert.NilError(t, os.WriteFile(record, []byte("run"), 0o600))
			files := w.run(w.work, nil, "sh", "-c", "cat a.txt b.txt dir/c.txt")

			_, err := w.repo.Fetch(t.Context(), w.sh, true)
			broken, ok := errors.AsType[*BrokenError](err)
			assert.Assert(t, ok, "%v", err)
			assert.Assert(t, is.Contains(broken.Why, tc.why))
			_, lost, err := w.repo.Repair(t.Context(), w.sh)
			assert.NilError(t, err)

			want := fetched
			if tc.saved {
				want = last
				assert.NilError(t, lost)
			}
			assert.NilError(t, os.Remove(record), "the record of a run is kept")
			_, err = os.Stat(filepath.Join(w.gitDir, LostFolder))
			assert.Equal(t, err == nil, lost != nil)
			assert.Equal(t, w.sandboxGit("rev-parse", "main"), want)
			assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), want)
			assert.Equal(t, w.sandboxGit("rev-parse", "side"), fetched)
			assert.Equal(t, w.sandboxGit("branch", "--show-current"), "main")
			assert.Equal(t, w.run(w.work, nil, "sh", "-c", "cat a.txt b.txt dir/c.txt"), files, "files are unchanged")
			w.sandboxGit("fsck", "--strict")
			w.sandboxGit("stash", "-q", "--include-untracked")
			w.commit("a.txt", "more\n")
			assert.Equal(t, w.fetch().Conflict.Kind, diverged, "both sides are unchanged")
		})
	}
}

// A repository that an agent has made in place of the clone works, but has none of its commits.
func TestNewRepositoryInsteadOfACloneIsRepaired(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "fetched\n")
	w.fetch()
	entries, err := os.ReadDir(w.gitDir)
	assert.NilError(t, err)
	for _, e := range entries {
		assert.NilError(t, os.RemoveAll(filepath.Join(w.gitDir, e.Name())))
	}
	w.run(w.work, nil, "git", "init", "-q", "-b", "other", "--separate-git-dir", w.gitDir, ".")
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-q", "-m", "agent: all")
	other := w.sandboxGit("rev-parse", "other")

	_, err = w.repo.Push(t.Context(), w.sh)
	broken, is := errors.AsType[*BrokenError](err)
	assert.Assert(t, is, "%v", err)
	assert.Equal(t, broken.Why, "it does not have the commits of its branch main")
	_, lost, err := w.repo.Repair(t.Context(), w.sh)
	assert.NilError(t, errors.Join(lost, err))
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), tip)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/other"), other)
	assert.Equal(t, w.tip("main"), tip)
}

// A loop goes on at what was accepted, although its last known commits, which were refused, do not contain that.
func TestRepairRestoresTheAcceptedCommit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	run := w.commit("a.txt", "accepted\n")
	w.accept(run)
	w.sandboxGit("commit", "-q", "--amend", "-m", "agent: rewritten")
	refused := w.sandboxGit("rev-parse", "HEAD")
	w.rejected(refused)
	w.corrupt("refs/heads/main")

	_, lost, err := w.repo.Repair(t.Context(), w.sh)
	assert.NilError(t, errors.Join(lost, err))
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), run)
	w.push()
	assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), run)
	assert.Equal(t, w.accept(w.commit("a.txt", "next\n")).Commits, 1)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@kept-"+refused), refused)
}

func (w *fixture) corrupt(name string) {
	w.t.Helper()
	path := filepath.Join(w.gitDir, name)
	_ = os.Remove(path)
	assert.NilError(w.t, os.WriteFile(path, []byte("\x00garbage\n"), 0o400))
}

// A git that was killed, not started or found no space is no reason for a repair.
func TestTransientFailuresAreNotRepaired(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	killed := func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		return w.sh(ctx, "git() { sh -c 'kill -9 $$'; }\n"+strings.Replace(script, plainGit, "", 1), args, stdin, stdout)
	}
	unstarted := func(command string) Shell { // sh cannot fork in a command substitution
		return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
			git := `git() { case "$1 $2" in "` + command + `") return 2;; esac; command git "$@"; }` + "\n"
			return w.sh(ctx, git+strings.Replace(script, plainGit, "", 1), args, stdin, stdout)
		}
	}
	for _, sh := range []Shell{killed, unstarted("rev-parse --git-dir"), unstarted("rev-parse -q"), func(context.Context, string, []string, io.Reader, io.Writer) error { return &ScriptError{Code: 137} }, func(context.Context, string, []string, io.Reader, io.Writer) error {
		return &ScriptError{Code: 128, Stderr: "fatal: write error: No space left on device"}
	}} {
		_, err := w.repo.Fetch(t.Context(), sh, true)
		assert.Assert(t, err != nil && !Permanent(err), "%v", err)
		_, lost, err := w.repo.Repair(t.Context(), sh)
		assert.Assert(t, err != nil && lost == nil)
	}
	assert.Equal(t, w.fetch().Commits, 1)
}

// A push would take the missing index for the removal of all files.
func TestPushAfterAnInterruptedRepair(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	killed := errors.New("killed")
	_, _, err := w.repo.Repair(t.Context(), func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		if script != relinkScript+salvageScript {
			return killed
		}
		return w.sh(ctx, script, args, stdin, stdout)
	})
	assert.ErrorIs(t, err, killed)
	_, err = w.repo.Push(t.Context(), w.sh)
	assert.Assert(t, is.ErrorContains(err, "broken: missing index"))
	_, lost, err := w.repo.Repair(t.Context(), w.sh)
	assert.NilError(t, errors.Join(lost, err))
	_, err = w.repo.Push(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
}

// The sandbox gets the user's branch.
func TestBrokenGitDirectoryWithoutState(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.fetch()
	w.corrupt("index")
	assert.NilError(t, os.RemoveAll(w.repo.stateDir))
	_, lost, err := w.repo.Repair(t.Context(), w.sh)
	assert.NilError(t, errors.Join(lost, err))
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), w.tip("main"))
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
}

func TestRepairKeepsHeldCommits(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "secret\n")
	w.corrupt("index")
	_, _, err := w.repo.WithGate(func(context.Context, Incoming) (bool, error) { return false, nil }).Repair(t.Context(), w.sh)
	assert.ErrorContains(t, err, "were held back")
	assert.Equal(t, w.sandboxGit("show", "main:a.txt"), "secret")
}

// A killed git leaves locks, which must not stop the next run's agent from committing, and what it has
// received.
func TestFilesOfAKilledGitAreRemoved(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	incomplete := filepath.Join(w.gitDir, "objects", "pack", "tmp_pack_aBc123")
	for _, path := range []string{"index.lock", "HEAD.lock", "refs/heads/main.lock"} {
		assert.NilError(t, os.WriteFile(filepath.Join(w.gitDir, path), nil, 0o644))
	}
	assert.NilError(t, os.MkdirAll(filepath.Dir(incomplete), 0o755))
	assert.NilError(t, os.WriteFile(incomplete, []byte("PACK"), 0o444))
	w.push()
	_, err := os.Stat(incomplete)
	assert.Assert(t, os.IsNotExist(err))
	w.commit("a.txt", "agent's\n")
	assert.Equal(t, w.fetch().Commits, 1)
}

func TestReleasedIndexLockIsRetried(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	tip := w.commit("a.txt", "agent's\n")
	lock := filepath.Join(w.root, ".git", "index.lock")
	assert.NilError(t, os.WriteFile(lock, nil, 0o644))
	assert.Equal(t, w.fetch().Conflict.Kind, indexLocked)
	assert.Assert(t, Unfinished(w.repo.stateDir, "ralph-test"))
	assert.NilError(t, os.Remove(lock))
	w.fetch()
	assert.Equal(t, w.tip("main"), tip)
	assert.Assert(t, !Unfinished(w.repo.stateDir, "ralph-test"))
}

// cutAt returns a Shell whose connection is lost at its nth script: with half of the input
// sent, or after the script.
func cutAt(sh Shell, n int, after bool) Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		if n--; n > 0 {
			return sh(ctx, script, args, stdin, stdout)
		} else if n < 0 {
			return errCut
		}
		if stdin != nil && !after {
			input, err := io.ReadAll(stdin)
			if err != nil {
				return err
			}
			stdin = bytes.NewReader(input[:len(input)/2])
		}
		if stdin == nil && !after {
			return errCut
		}
		_ = sh(ctx, script, args, stdin, stdout)
		return errCut
	}
}

var errCut = errors.New("connection lost")

// The next command completes a repair, which loses nothing that it has saved.
func TestInterruptedRepairIsCompleted(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("script %d, after %t", n, after), func(t *testing.T) {
				t.Parallel()
				w := newSandbox(t)
				w.inSandbox("echo agent > a.txt; git commit -qam fetched")
				w.fetch()
				w.inSandbox("cd \"$GIT_DIR\"; echo precious > precious; git commit -q --allow-empty -m 'not fetched'; rm objects/$(git rev-parse main | sed 's,..,&/,')")

				_, _, err := w.repo.Repair(t.Context(), cutAt(w.sh, n, after))
				assert.ErrorIs(t, err, errCut)
				_, err = w.repo.Push(t.Context(), w.sh)
				if broken := (*BrokenError)(nil); errors.As(err, &broken) {
					var lost error
					_, lost, err = w.repo.Repair(t.Context(), w.sh)
					assert.NilError(t, err)
					assert.ErrorContains(t, lost, "is missing")
					_, err = w.repo.Push(t.Context(), w.sh)
				}
				assert.NilError(t, err)
				assert.Equal(t, w.inSandbox("git fsck; git status --porcelain; git log --format=%s; cat a.txt \"$GIT_DIR\"/ralph-lost/precious"), "fetched\nfirst\nagent\nprecious")
			})
		}
	}
}
