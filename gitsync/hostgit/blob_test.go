//go:build unix

package hostgit

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// A file can become a pipe after it was listed.
func TestPipesAreNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	assert.NilError(t, syscall.Mkfifo(path, 0o600))
	held, err := os.OpenFile(path, os.O_RDWR, 0) // a silent writer
	assert.NilError(t, err)
	defer func() { _ = held.Close() }()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer func() { _ = root.Close() }()
	assert.Equal(t, contentID(root, "pipe", 40), UnknownBlob)
}
