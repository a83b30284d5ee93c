package backlogs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func TestLastDifferentCopiesAreKept(t *testing.T) {
	b := Backlog{Host: host.Host{StateDir: t.TempDir()}, Sandbox: "box"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	content := func(n int) []byte {
		return fmt.Appendf(nil, `{"tasks":[{"id":"1","slug":"a","status":"open"},{"id":"2","slug":"b%d","status":"done"}]}`, n)
	}
	for n := range 8 {
		for range 2 { // the second is the same
			now = now.Add(time.Second)
			_, err := b.save(content(n), now, "")
			assert.NilError(t, err)
		}
	}
	copies, err := b.Copies()
	assert.NilError(t, err)
	assert.Equal(t, len(copies), copiesMax)
	newest, err := os.ReadFile(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, string(newest), string(content(7)))
	assert.DeepEqual(t, copies[0].Counts, map[string]int{"open": 1, "done": 1})
	info, err := os.Stat(copies[0].path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))

	// A loop replaces its own copy.
	during, err := b.save(content(8), now.Add(time.Second), "")
	assert.NilError(t, err)
	for n := range 3 {
		now = now.Add(time.Second)
		during, err = b.save(content(9+n), now.Add(time.Second), during)
		assert.NilError(t, err)
	}
	again, err := b.Copies()
	assert.NilError(t, err)
	assert.Equal(t, len(again), copiesMax)
	assert.Equal(t, again[0].path, during)
	assert.Equal(t, again[1].path, copies[0].path)

	// Other files are neither listed nor counted.
	assert.NilError(t, os.WriteFile(filepath.Join(b.dir(), "notes.json"), nil, 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(b.dir(), now.Add(time.Hour).Format(copyStamp)+".json"), []byte("{"), 0o600))
	again, err = b.Copies()
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

func TestBuildWithAnEmptiedBacklogFails(t *testing.T) {
	const some, none = `{"tasks":[{"id":"1","slug":"a","status":"open"}]}`, `{"tasks":[]}`
	for _, tc := range []struct {
		name, before, after string
		code                int
		err                 string
	}{
		{"unchanged", some, some, 0, ""},
		{"never had tasks", none, none, 0, ""},
		{"emptied", some, none, 0, "the backlog is gone: its database has no tasks"},
		{"emptied by a failed build", some, none, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			b := Backlog{Host: host.Host{StateDir: t.TempDir()}, Sandbox: "box", Root: root}
			assert.NilError(t, os.MkdirAll(filepath.Join(root, ".ralph"), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(root, ".ralph", "tasks.db"), nil, 0o644))
			driver := &exporting{backlogs: []string{tc.before, tc.after}}
			after, err := b.Keep(t.Context(), driver, lifecycle.Sandbox{Root: root}, host.BuildCommand, "", false)
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

func TestEmptyAndDamagedCopiesAreNotCounted(t *testing.T) {
	for _, content := range []string{"", "garbage", "{}", `{"tasks":[]}`, `{"tasks":[{"title":"x"}]}`, `{"tasks":{}}`, `[]`} {
		_, err := countTasks([]byte(content))
		assert.Assert(t, err != nil, content)
	}
}

// An agent can write what is copied.
func TestQuestionsOfTheNewestCopy(t *testing.T) {
	b := Backlog{Host: host.Host{StateDir: t.TempDir()}, Sandbox: "box"}
	open, err := b.Questions(gitrepo.Scope{Repo: "a/b", Branch: "x"})
	assert.NilError(t, err)
	assert.Equal(t, len(open), 0)
	for n, content := range []string{
		`{"tasks":[{"id":"1","scope_repo":"a/b","scope_branch":"x","slug":"old","status":"question","questions":"[{\"question\":\"Which?\"}]"}]}`,
		`{"tasks":[{"id":"1","scope_repo":"a/b","scope_branch":"x","slug":"a","title":"A","status":"question","questions":"[{\"question\":\"x\",\"answer\":\"y\"},{\"question\":\"Which?\",\"default_at\":\"2031-02-03T04:00:00Z\"}]"},
			{"id":"2","scope_repo":"a/b","scope_branch":"x","slug":"b","status":"open","questions":"[{\"question\":\"x\"}]"},
			{"id":"6","scope_repo":"a/b","scope_branch":"other","slug":"f","status":"question","questions":"[{\"question\":\"Which?\"}]"},
			{"id":"3","scope_repo":"a/b","scope_branch":"x","slug":"c","status":"question","questions":"[]"},{"id":"4","scope_repo":"a/b","scope_branch":"x","slug":"d","status":"question","questions":"{"},{"id":"5","scope_repo":"a/b","scope_branch":"x","slug":"e","status":"question"}]}`,
	} {
		_, err := b.save([]byte(content), time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC), "")
		assert.NilError(t, err)
	}
	open, err = b.Questions(gitrepo.Scope{Repo: "a/b", Branch: "x"})
	assert.NilError(t, err)
	assert.DeepEqual(t, open, []taskjson.OpenQuestion{
		{ID: "a", Title: "A", Question: taskjson.Question{Text: "Which?", DefaultAt: time.Date(2031, 2, 3, 4, 0, 0, 0, time.UTC)}},
	})
}
