package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// TestBacklogCopiesAreKept: the last few different copies are kept.
func TestBacklogCopiesAreKept(t *testing.T) {
	h := host.Host{StateDir: t.TempDir()}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	content := func(n int) []byte {
		return fmt.Appendf(nil, `{"tasks":[{"id":"1","slug":"a","status":"open"},{"id":"2","slug":"b%d","status":"done"}]}`, n)
	}
	for n := range 8 {
		for range 2 { // the second is the same
			now = now.Add(time.Second)
			_, err := keepCopy(h, "box", content(n), now, "")
			assert.NilError(t, err)
		}
	}
	copies, err := backlogCopies(h, "box")
	assert.NilError(t, err)
	assert.Equal(t, len(copies), copiesMax)
	newest, err := os.ReadFile(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, string(newest), string(content(7)))
	assert.DeepEqual(t, copies[0].Counts, map[string]int{"open": 1, "done": 1})
	info, err := os.Stat(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))

	// A loop replaces the copy that it made after its last run.
	during, err := keepCopy(h, "box", content(8), now.Add(time.Second), "")
	assert.NilError(t, err)
	for n := range 3 {
		now = now.Add(time.Second)
		during, err = keepCopy(h, "box", content(9+n), now.Add(time.Second), during)
		assert.NilError(t, err)
	}
	again, err := backlogCopies(h, "box")
	assert.NilError(t, err)
	assert.Equal(t, len(again), copiesMax)
	assert.Equal(t, again[0].path, during)
	assert.Equal(t, again[1].path, copies[0].path)

	// What is no copy is neither listed nor counted.
	assert.NilError(t, os.WriteFile(filepath.Join(copyDir(h, "box"), "notes.json"), nil, 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(copyDir(h, "box"), now.Add(time.Hour).Format(copyStamp)+".json"), []byte("{"), 0o600))
	again, err = backlogCopies(h, "box")
	assert.NilError(t, err)
	assert.Equal(t, len(again), copiesMax)
}

// exporting is a driver whose sandbox has one backlog after the other.
type exporting struct {
	lifecycle.Driver
	backlogs []string
}

func (e *exporting) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	_, err := io.WriteString(p.Stdout, e.backlogs[0])
	e.backlogs = e.backlogs[1:]
	return 0, err
}

// A build ends well with nothing to do. It does not if there was something before.
func TestBuildFailsWhoseBacklogWasEmptied(t *testing.T) {
	const some, none = `{"tasks":[{"id":"1","slug":"a","status":"open"}]}`, `{"tasks":[]}`
	for _, tc := range []struct {
		name, before, after string
		code                int
		err                 string
	}{
		{"as it was", some, some, 0, ""},
		{"never had tasks", none, none, 0, ""},
		{"emptied", some, none, 0, "the backlog is gone: its database has no tasks"},
		{"emptied, and the build says so", some, none, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{StateDir: t.TempDir()}
			spec := lifecycle.Spec{Name: "box", Root: t.TempDir()}
			assert.NilError(t, os.MkdirAll(filepath.Join(spec.Root, ".ralph"), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, ".ralph", "tasks.db"), nil, 0o644))
			in := Target{
				Choice: Choice{Backend: host.Backend{Driver: &exporting{backlogs: []string{tc.before, tc.after}}}},
				spec:   spec, opts: Options{Command: host.BuildCommand},
			}
			after, err := copyBacklog(t.Context(), h, in, lifecycle.Sandbox{}, "", false)
			assert.NilError(t, err)
			err = after(tc.code)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.Error(t, err, tc.err)
		})
	}
}

func TestEmptyOrBrokenCopiesAreNone(t *testing.T) {
	for _, content := range []string{"", "garbage", "{}", `{"tasks":[]}`, `{"tasks":[{"title":"x"}]}`, `{"tasks":{}}`, `[]`} {
		_, err := countTasks([]byte(content))
		assert.Assert(t, err != nil, content)
	}
}
