//go:build unix

package worktrees

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// git opens what is called so when it compares files.
func TestStatusDoesNotWaitAtAPipe(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "x")
	r := open(t, root)
	r.patience = 300 * time.Millisecond
	assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "first"), []byte("FIRST"), 0o644))
	assert.NilError(t, syscall.Mkfifo(filepath.Join(tree.Path, ".gitattributes"), 0o600))
	at := find(t, r, "x")
	ended := make(chan error, 1)
	go func() {
		_, err := r.Status(t.Context(), at)
		ended <- err
	}()
	select {
	case err := <-ended:
		assert.ErrorContains(t, err, "a named pipe")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}
