package scopes

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
)

func TestClientIDIsCreatedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ralph")
	id, err := ClientID(dir)
	assert.NilError(t, err)
	assert.Equal(t, id, "")
	_, err = os.Stat(dir)
	assert.Assert(t, os.IsNotExist(err), "reading creates nothing")

	ids := make([]string, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			var err error
			ids[i], err = EnsureClientID(dir)
			assert.Check(t, err)
		})
	}
	group.Wait()
	assert.Assert(t, ids[0] != "")
	for _, other := range ids {
		assert.Equal(t, other, ids[0])
	}
	id, err = ClientID(dir)
	assert.NilError(t, err)
	assert.Equal(t, id, ids[0])
	if runtime.GOOS != "windows" {
		info, err := os.Stat(clientPath(dir))
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	}

	other, err := EnsureClientID(t.TempDir())
	assert.NilError(t, err)
	assert.Assert(t, other != id)
}

// A new ID would make all sandboxes those of another client.
func TestDamagedClientIDIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(clientPath(dir), []byte("\n"), 0o600))
	_, err := EnsureClientID(dir)
	assert.ErrorContains(t, err, "the file is empty")
	_, err = ClientID(dir)
	assert.ErrorContains(t, err, "the file is empty")
}
