package backlog

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sqlshell"
)

func testScope() Scope { return Scope{Repo: "acme/shop", Branch: "main"} }

func dbPath(t *testing.T) string { return filepath.Join(t.TempDir(), ".ralph", "tasks.db") }

func openStore(t *testing.T, path string, scope Scope) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, scope)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close()) })
	return s
}

func newStore(t *testing.T) *Store {
	t.Helper()
	return openStore(t, dbPath(t), testScope())
}

// add creates tasks of the same priority.
func add(t *testing.T, s *Store, slugs ...string) {
	t.Helper()
	for _, slug := range slugs {
		assert.NilError(t, s.Create(t.Context(), NewTask{Slug: slug, Title: "Title of " + slug, Priority: DefaultPriority}))
	}
}

func claim(t *testing.T, s *Store, slug, agent string) Task {
	t.Helper()
	task, err := s.Claim(t.Context(), ClaimOptions{Slug: slug, Agent: agent, Lease: DefaultLease})
	assert.NilError(t, err)
	return task
}

func get(t *testing.T, s *Store, slug string) Task {
	t.Helper()
	task, err := s.Show(t.Context(), slug)
	assert.NilError(t, err)
	return task
}

func slugs(tasks []Task) []string {
	names := []string{}
	for _, task := range tasks {
		names = append(names, task.Slug)
	}
	return names
}

// query runs SQL as other tools do.
func query(t *testing.T, path, sql string) string {
	t.Helper()
	out, err := sqlshell.Run(t.Context(), path, sql)
	assert.NilError(t, err)
	return out
}
