package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// TestBacklogCopiesAreKept: the last few different copies are kept.
func TestBacklogCopiesAreKept(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	content := func(n int) []byte {
		return fmt.Appendf(nil, `{"tasks":[{"id":"1","slug":"a","status":"open"},{"id":"2","slug":"b%d","status":"done"}]}`, n)
	}
	for n := range 8 {
		for range 2 { // the second is the same
			now = now.Add(time.Second)
			_, err := h.keepCopy("box", content(n), now, "")
			assert.NilError(t, err)
		}
	}
	copies, err := h.backlogCopies("box")
	assert.NilError(t, err)
	assert.Equal(t, len(copies), keptCopies)
	newest, err := os.ReadFile(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, string(newest), string(content(7)))
	assert.DeepEqual(t, copies[0].Counts, map[string]int{"open": 1, "done": 1})
	info, err := os.Stat(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))

	// A loop replaces the copy that it made after its last run.
	during, err := h.keepCopy("box", content(8), now.Add(time.Second), "")
	assert.NilError(t, err)
	for n := range 3 {
		now = now.Add(time.Second)
		during, err = h.keepCopy("box", content(9+n), now.Add(time.Second), during)
		assert.NilError(t, err)
	}
	again, err := h.backlogCopies("box")
	assert.NilError(t, err)
	assert.Equal(t, len(again), keptCopies)
	assert.Equal(t, again[0].path, during)
	assert.Equal(t, again[1].path, copies[0].path)

	// What is no copy is neither listed nor counted.
	assert.NilError(t, os.WriteFile(filepath.Join(h.copyDir("box"), "notes.json"), nil, 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(h.copyDir("box"), now.Add(time.Hour).Format(copyStamp)+".json"), []byte("{"), 0o600))
	again, err = h.backlogCopies("box")
	assert.NilError(t, err)
	assert.Equal(t, len(again), keptCopies)
}

func TestEmptyOrBrokenCopiesAreNone(t *testing.T) {
	for _, content := range []string{"", "garbage", "{}", `{"tasks":[]}`, `{"tasks":[{"title":"x"}]}`, `{"tasks":{}}`, `[]`} {
		_, err := countTasks([]byte(content))
		assert.Assert(t, err != nil, content)
	}
}
