package gitsync

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
)

// onSmallDisk moves the user's objects to a small disk, which fill fills.
func (w *fixture) onSmallDisk() (fill func() (free func())) {
	w.t.Helper()
	small, objects := disktest.Small(w.t), filepath.Join(w.root, ".git", "objects")
	assert.NilError(w.t, os.CopyFS(small, os.DirFS(objects)))
	assert.NilError(w.t, os.RemoveAll(objects))
	assert.NilError(w.t, os.Symlink(small, objects))
	return func() func() { return disktest.Fill(w.t, small) }
}

// commitLarge commits what no small disk has room for.
func (w *fixture) commitLarge() string {
	w.t.Helper()
	var text bytes.Buffer
	for range 1 << 14 {
		text.WriteString(rand.Text() + "\n")
	}
	return w.commit("large.txt", text.String())
}

func TestFullDiskRejectsNoCommit(t *testing.T) {
	w := newRepo(t)
	fill := w.onSmallDisk()
	w.createSandbox()
	tip := w.commitLarge()
	free := fill()
	_, err := w.repo.Fetch(t.Context(), w.sh, true)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Assert(t, !Permanent(err))
	assert.Assert(t, !strings.Contains(err.Error(), "verifying"), err.Error())
	free()
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
}

func TestAcceptAfterAFullDisk(t *testing.T) {
	w := newRepo(t)
	fill := w.onSmallDisk()
	w.createSandbox()
	w.repo = w.repo.WithLoop()
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	before := w.tip("main")
	run := w.commitLarge()
	free := fill()
	_, err := w.repo.Accept(t.Context(), w.sh, run)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	_, is := errors.AsType[*RejectedError](err)
	assert.Assert(t, !is, "it is no fault of the run")
	assert.Equal(t, w.tip("main"), before)
	assert.Equal(t, w.accepted(), before)
	free()
	assert.Equal(t, w.accept(run).Commits, 1)
}
