package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestCacheVolume(t *testing.T) {
	// The name is an interface: the first 12 digits of the path's SHA-256.
	assert.Equal(t, CacheVolume("/home/una/shop"), "ralph-cache-879dba6ff7ec")
	assert.Assert(t, CacheVolume("/home/una/shop") != CacheVolume("/home/una/shop2"))
}

func TestCacheEnvironment(t *testing.T) {
	dir := t.TempDir()
	env := cacheEnvironment("1234:5", dir)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name != "UV_LINK_MODE" && name != "CARGO_INSTALL_ROOT" {
			assert.Check(t, strings.HasPrefix(value+"/", "/ralph-cache/1234/"), v)
		}
	}
	assert.Check(t, cmp.Contains(env, "YARN_CACHE_FOLDER=/ralph-cache/1234/yarn"))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, ".yarnrc.yml"), nil, 0o600))
	assert.Check(t, !slices.ContainsFunc(cacheEnvironment("1234:5", dir), func(v string) bool { return strings.HasPrefix(v, "YARN_CACHE_FOLDER=") }))
	assert.Equal(t, len(cacheEnvironment("", dir)), 0)
}
