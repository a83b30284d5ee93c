package runlog

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestLogsInAWorktreeAreIgnoredByGit(t *testing.T) {
	top := t.TempDir()
	dir, err := MakeDirIn(top)
	assert.NilError(t, err)
	assert.Equal(t, dir, DirIn(top))
	ignore := filepath.Join(top, ".ralph", ".gitignore")
	b, err := os.ReadFile(ignore)
	assert.NilError(t, err)
	assert.Equal(t, string(b), "*\n")
	assert.NilError(t, os.WriteFile(ignore, []byte("logs\n"), 0o600))
	_, err = MakeDirIn(top)
	assert.NilError(t, err)
	b, err = os.ReadFile(ignore)
	assert.NilError(t, err)
	assert.Equal(t, string(b), "logs\n", "an existing file is preserved")
}

func TestLogsInAWorktreeFollowNoLinks(t *testing.T) {
	for _, link := range []string{".ralph", ".ralph/logs"} {
		top, outside := t.TempDir(), t.TempDir()
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, link)), 0o755))
		assert.NilError(t, os.Symlink(outside, filepath.Join(top, link)))
		_, err := MakeDirIn(top)
		assert.ErrorContains(t, err, "is not a directory")
		entries, err := os.ReadDir(outside)
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 0)
	}
}
