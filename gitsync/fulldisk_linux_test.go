package gitsync

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
)

func TestFullDiskRejectsNoCommit(t *testing.T) {
	w := newRepo(t)
	small, objects := disktest.Small(t), filepath.Join(w.root, ".git", "objects")
	assert.NilError(t, os.CopyFS(small, os.DirFS(objects)))
	assert.NilError(t, os.RemoveAll(objects))
	assert.NilError(t, os.Symlink(small, objects))
	w.createSandbox()
	var text bytes.Buffer
	for range 1 << 14 {
		text.WriteString(rand.Text() + "\n")
	}
	tip := w.commit("large.txt", text.String())
	free := disktest.Fill(t, small)
	_, err := w.repo.Fetch(t.Context(), w.sh, true)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Assert(t, !Permanent(err))
	assert.Assert(t, !strings.Contains(err.Error(), "verifying"), err.Error())
	free()
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
}
