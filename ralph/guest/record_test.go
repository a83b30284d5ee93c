package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"gotest.tools/v3/assert"
)

func TestOldRecordsArePruned(t *testing.T) {
	home := t.TempDir()
	now := time.Now()
	for _, n := range []record{{ID: "old"}, {ID: "new"}, {ID: "alive"}} {
		assert.NilError(t, n.write(home)) // each is of this process
	}
	dir := recordsDir(home)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, ".tmp-x"), nil, 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "notjson"), []byte("{"), 0o600))
	living := exec.CommandContext(t.Context(), "sleep", "1000")
	living.Env = append(os.Environ(), wire.DispatchEnv+"=alive")
	assert.NilError(t, living.Start())
	for _, name := range []string{"old", "alive", ".tmp-x"} {
		past := now.Add(-recordRetention - time.Minute)
		assert.NilError(t, os.Chtimes(filepath.Join(dir, name), past, past))
	}
	pruneRecords(home, now)
	assert.NilError(t, living.Process.Kill())
	_ = living.Wait()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	assert.DeepEqual(t, left, []string{"alive", "new", "notjson"})
	pruneRecords(t.TempDir(), now) // nothing to do is fine
}

func FuzzParseNote(f *testing.F) {
	f.Add("x1", `{"id":"x1","command":["ralph","build"],"since":"2026-11-20T10:00:00Z","pid":7,"start":42,"boot":"b"}`)
	f.Add("x1", `{"id":"x2"}`)
	f.Add("../x", `{"id":"../x"}`)
	f.Add("x", `{"id":"x","pid":-1,"command":null}`)
	f.Fuzz(func(t *testing.T, id, content string) {
		n, err := parseRecord(id, []byte(content))
		assert.Assert(t, err != nil || n.ID == id && validID(id))
	})
}
