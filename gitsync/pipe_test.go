//go:build unix

package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// mkfifo creates a named pipe in a working tree.
func (w *fixture) mkfifo(dir, name string) {
	w.t.Helper()
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	assert.NilError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(w.t, syscall.Mkfifo(path, 0o600))
}

// assertReleased asserts that a sync has left no temporary file and no lock.
func (w *fixture) assertReleased() {
	w.t.Helper()
	left, err := filepath.Glob(filepath.Join(w.root, ".git", "index?*"))
	assert.NilError(w.t, err)
	assert.Check(w.t, is.Len(left, 0))
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	_, unlock, err := w.repo.lock(ctx)
	assert.NilError(w.t, err)
	unlock()
}

// Commits are fetched while a pipe blocks git in the user's worktree, and follow to the branch without it.
func TestNamedPipesDoNotBlockFetch(t *testing.T) {
	for _, tc := range []struct {
		pipe, file string
		blocks     bool
	}{
		{".gitattributes", "a.txt", true},
		{"dir/.gitattributes", "dir/c.txt", true},
		{".gitattributes", "new/file.txt", true},
		{".gitmodules", "a.txt", false},
		{".gitignore", "a.txt", false},
		{"b.txt", "a.txt", false},
	} {
		t.Run(tc.pipe+" and "+tc.file, func(t *testing.T) {
			w := newSandbox(t)
			w.repo.git.Timeout = 500 * time.Millisecond
			before, tip := w.tip("main"), w.commit(tc.file, "agent's\n")
			w.mkfifo(w.root, tc.pipe)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			res, err := w.repo.Fetch(ctx, w.sh, true)
			assert.Assert(t, res.Conflict == nil, "%v", res.Conflict)
			assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), tip)
			w.assertReleased()
			if tc.blocks {
				assert.ErrorContains(t, err, filepath.Join(w.root, tc.pipe)+": not a regular file")
				assert.DeepEqual(t, hint.Of(err), []string{"remove it"})
				assert.Equal(t, w.tip("main"), before)
			} else {
				assert.NilError(t, err)
				assert.Equal(t, w.tip("main"), tip)
			}
			assert.NilError(t, os.Remove(filepath.Join(w.root, tc.pipe)))
			w.fetch()
			assert.Equal(t, w.tip("main"), tip)
			assert.Equal(t, w.git("diff", "--cached", "--name-only", "HEAD"), "")
			assert.Equal(t, w.git("diff", "--name-only", "--diff-filter=M"), "")
		})
	}
}

// Merges, diffs and filters read attributes.
func TestNamedPipesDoNotBlockReadingAttributes(t *testing.T) {
	quick := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	t.Run("a merge", func(t *testing.T) {
		w := newRepo(t)
		w.write("m.txt", "1\n2\n3\n4\n5\n")
		w.git("add", "m.txt")
		w.git("commit", "-q", "-m", "to merge")
		w.createSandbox()
		w.write("m.txt", "one\n2\n3\n4\n5\n")
		w.git("commit", "-q", "-m", "user", "m.txt")
		w.commit("m.txt", "one\n2\n3\n4\nfive\n")
		w.mkfifo(w.root, ".gitattributes")
		res, err := w.repo.Fetch(quick(t), w.sh, true)
		assert.NilError(t, err)
		assert.Assert(t, res.Conflict != nil && res.Conflict.Merged != "", "%+v", res)
		w.assertReleased()
	})
	t.Run("a gate", func(t *testing.T) {
		w := newSandbox(t)
		w.repo.git.Timeout = 500 * time.Millisecond
		tip := w.commit("a.txt", "agent's\n")
		var added bool
		gated := w.repo.WithGate(func(ctx context.Context, in Incoming) (bool, error) {
			err := in.git.Stream(ctx, strings.NewReader(tip+"\n"), new(strings.Builder), "diff-tree", "--stdin", "-p", "--no-ext-diff", "--no-textconv")
			added = err == nil
			return true, errors.Join(err, os.Remove(filepath.Join(w.root, ".gitattributes")))
		})
		w.mkfifo(w.root, ".gitattributes")
		_, err := gated.Fetch(quick(t), w.sh, true)
		assert.NilError(t, err)
		assert.Assert(t, added)
		w.assertReleased()
	})
}

func TestNamedPipeDoesNotBlockPacking(t *testing.T) {
	w := newSandbox(t)
	w.repo.git.Timeout = 500 * time.Millisecond
	tip := w.commit("a.txt", "agent's\n")
	w.mkfifo(w.work, ".gitattributes")
	var read bool
	res, err := w.repo.Fetch(t.Context(), func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		stop := w.unblockReaders(filepath.Join(w.work, ".gitattributes"), &read)
		defer stop()
		return w.sh(ctx, script, args, stdin, stdout)
	}, true)
	assert.NilError(t, err)
	assert.Assert(t, !read)
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
}

// unblockReaders sets read when a process has opened a pipe, and unblocks it. Opening a pipe for
// writing without blocking succeeds only then.
func (w *fixture) unblockReaders(path string, read *bool) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				*read = true
				_ = syscall.Close(fd)
			}
			select {
			case <-stopping:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(stopping); <-stopped }
}

func TestBlockedGitOfAKilledCommandHoldsNoLock(t *testing.T) {
	w := newSandbox(t)
	tip := w.commit("a.txt", "agent's\n")
	waits := filepath.Join(w.dir, "waits")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--refresh*) mkfifo %s; echo $$ >%s; (sleep 0.3; kill -9 $PPID) & ;; esac\nexec git \"$@\"\n", filepath.Join(w.root, ".gitattributes"), waits)
	writeProgram(t, filepath.Join(w.dir, "git-that-kills"), script)
	assert.Assert(t, !w.syncInChild())
	pid, err := os.ReadFile(waits)
	assert.NilError(t, err)
	var orphan int
	_, err = fmt.Sscan(string(pid), &orphan)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(orphan, syscall.SIGKILL) })
	assert.NilError(t, syscall.Kill(orphan, 0), "it waits")

	assert.NilError(t, os.Remove(filepath.Join(w.root, ".gitattributes"))) // it waits still
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = w.repo.Fetch(ctx, w.sh, true)
	assert.NilError(t, err)
	assert.Equal(t, w.tip("main"), tip)
	w.assertReleased()
}
