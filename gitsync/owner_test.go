//go:build unix

package gitsync

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// Files that root creates in a user's repository belong to the user.
func TestRootKeepsTheOwnerOfFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can try what root does")
	}
	const uid, gid = 1234, 2345
	setHome(t)
	w := newRepo(t)
	for dir := w.dir; dir != filepath.Dir(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if dir != os.TempDir() {
			assert.NilError(t, os.Chmod(dir, 0o755))
		}
	}
	assert.NilError(t, filepath.WalkDir(w.root, func(path string, _ fs.DirEntry, err error) error {
		assert.NilError(t, err)
		return os.Lchown(path, uid, gid)
	}))
	w.git("config", "--global", "safe.directory", "*")
	w.createSandbox()
	tip := w.commit("a.txt", "x\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	assert.NilError(t, filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		assert.NilError(t, err)
		info, err := entry.Info()
		assert.NilError(t, err)
		st, ok := info.Sys().(*syscall.Stat_t)
		assert.Assert(t, ok && st.Uid == uid && st.Gid == gid, path)
		return nil
	}))
}
