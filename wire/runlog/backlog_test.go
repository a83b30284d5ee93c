package runlog

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestTakeBacklogReturnsTheCopyOnce(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	take := func(dispatch string, limit int64) (string, error) {
		content, err := TakeBacklog(top, dispatch, limit)
		return string(content), err
	}
	_, err := take("A", 100)
	assert.ErrorIs(t, err, fs.ErrNotExist)

	assert.NilError(t, SaveBacklog(top, "A", []string{"old"}))
	assert.NilError(t, SaveBacklog(top, "A", []string{"<a>"}))
	content, err := take("A", 100)
	assert.NilError(t, err)
	assert.Equal(t, content, `["\u003ca\u003e"]`)
	_, err = take("A", 100)
	assert.ErrorIs(t, err, fs.ErrNotExist, "taken twice")

	for _, tc := range []struct {
		dispatch string
		limit    int64
	}{{"B", 100}, {"A", 10}} {
		assert.NilError(t, SaveBacklog(top, "A", []string{"a"}))
		_, err = take(tc.dispatch, tc.limit)
		assert.ErrorIs(t, err, fs.ErrNotExist, "%v", tc)
	}
}

// An agent can replace the file and its temporary file by links.
func TestBacklogCopyFollowsNoLinks(t *testing.T) {
	t.Parallel()
	top, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	assert.NilError(t, os.WriteFile(outside, []byte("{}"), 0o600))
	logs := filepath.Join(top, ".ralph", "logs")
	assert.NilError(t, os.MkdirAll(logs, 0o755))
	for _, name := range []string{"backlog.json", "backlog.json.new"} {
		assert.NilError(t, os.Symlink(outside, filepath.Join(logs, name)))
	}
	_, err := TakeBacklog(top, "A", 100)
	assert.ErrorContains(t, err, "not a regular file")
	assert.NilError(t, SaveBacklog(top, "A", 1))
	content, err := TakeBacklog(top, "A", 100)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "1")
	untouched, err := os.ReadFile(outside)
	assert.NilError(t, err)
	assert.Equal(t, string(untouched), "{}")
}
