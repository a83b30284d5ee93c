package cli

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestCreateCaches(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	assert.NilError(t, createCaches(dir, home))
	for _, name := range cacheDirs() {
		info, err := os.Stat(filepath.Join(dir, name))
		assert.NilError(t, err)
		assert.Assert(t, info.IsDir())
	}
	read := func(path string) string {
		t.Helper()
		content, err := os.ReadFile(path)
		assert.NilError(t, err)
		return string(content)
	}
	conf, rc := filepath.Join(dir, "apt", "apt.conf"), filepath.Join(home, ".config", "pnpm", "rc")
	assert.Equal(t, read(conf), "Dir::Cache \""+dir+"/apt/cache\";\nDir::State::lists \""+dir+"/apt/lists\";\n")
	assert.Equal(t, read(rc), "store-dir="+dir+"/pnpm/store\n")

	// Existing files are kept, missing ones are recreated.
	assert.NilError(t, os.WriteFile(rc, []byte("mine"), 0o600))
	assert.NilError(t, os.RemoveAll(filepath.Join(dir, "apt")))
	assert.NilError(t, createCaches(dir, home))
	assert.Equal(t, read(rc), "mine")
	assert.Assert(t, read(conf) != "")

	assert.NilError(t, os.RemoveAll(filepath.Join(dir, "npm")))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "npm"), nil, 0o600))
	assert.ErrorContains(t, createCaches(dir, home), "creating the cache directory")
}
