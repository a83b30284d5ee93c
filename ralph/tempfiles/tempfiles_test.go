package tempfiles

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// Only what a run has made itself is removed, whatever its permissions are.
func TestRemoveNewKeepsWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	make := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			path = filepath.Join(dir, path)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			assert.NilError(t, os.WriteFile(path, nil, 0o644))
		}
	}
	make("a", "b/c", "session/d")
	assert.NilError(t, os.WriteFile(filepath.Join(outside, "f"), nil, 0o644))
	mounted := os.Geteuid() == 0
	if mounted {
		assert.NilError(t, os.Mkdir(filepath.Join(dir, "mount"), 0o755))
		assert.NilError(t, unix.Mount("other", filepath.Join(dir, "mount"), "tmpfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "mount"), unix.MNT_DETACH) })
	}

	s := Take([]string{dir, "/missing"}, []string{filepath.Join(dir, "session")})
	make("new", "b/new", "b/deep/er", "session/new", "modules/m/go.mod")
	assert.NilError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	assert.NilError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	assert.NilError(t, os.Chmod(filepath.Join(dir, "modules", "m"), 0o555))
	assert.NilError(t, os.Chmod(filepath.Join(dir, "modules"), 0))
	want := "a b b/c session session/d session/new"
	if mounted {
		make("mount/new", "foreign")
		assert.NilError(t, os.Chown(filepath.Join(dir, "foreign"), 1, 1))
		want = "a b b/c foreign mount mount/new session session/d session/new"
	}

	assert.NilError(t, s.RemoveNew())
	assert.Equal(t, list(t, dir), want)
	assert.Equal(t, list(t, outside), "f")
}

func list(t *testing.T, dir string) string {
	t.Helper()
	var paths []string
	assert.NilError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			paths = append(paths, rel)
		}
		return err
	}))
	return strings.Join(paths, " ")
}
