package backlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// oldSchema is the schema of the original program and of older versions.
func oldSchema() string {
	return strings.NewReplacer("  attempt INTEGER DEFAULT 0,\n", "", "  deleted_by TEXT,\n", "").Replace(schema)
}

// runStore opens the backlog as a command of a run.
func runStore(t *testing.T, path string, run *Run, agent string) *Store {
	t.Helper()
	s := openStore(t, path, testScope())
	file := strings.TrimPrefix(run.Env(), RunEnv+"=")
	s.fence = fenceFromEnv(func(name string) string { return map[string]string{RunEnv: file, "RALPH_AGENT_ID": agent}[name] })
	return s
}

func newRun(t *testing.T) *Run {
	t.Helper()
	run, err := NewRun(t.TempDir())
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, run.Close()) })
	return run
}

func TestClaimCountsAttempts(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	assert.Equal(t, claim(t, s, "a", "one").Attempt, 1)
	assert.NilError(t, s.Fail(t.Context(), "a", ""))
	assert.Equal(t, claim(t, s, "", "two").Attempt, 2)
	assert.Equal(t, get(t, s, "a").Attempt, 2)
}

// Statements of the original program still work after columns were added.
func TestOpenAddsColumnsToOlderDatabases(t *testing.T) {
	path := dbPath(t)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	insert := "INSERT INTO tasks (id, slug, scope_repo, scope_branch, title) VALUES ('%', '%', 'acme/shop', 'main', 'T');"
	query(t, path, oldSchema()+strings.ReplaceAll(insert, "%", "old"))
	s := openStore(t, path, testScope())
	assert.Equal(t, claim(t, s, "old", "me").Attempt, 1)
	query(t, path, strings.ReplaceAll(insert, "%", "new"))
	assert.Equal(t, claim(t, s, "new", "me").Attempt, 1)
}

// A superseded attempt changes nothing; callers without an attempt are not fenced.
func TestSupersededAttemptIsRefused(t *testing.T) {
	const expire = "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00'"
	for _, tc := range []struct {
		name string
		call func(*Store) error
	}{
		{"renew", func(s *Store) error { return s.Renew(t.Context(), "a", "one", time.Minute) }},
		{"done", func(s *Store) error { return s.Done(t.Context(), "a", "") }},
		{"fail", func(s *Store) error { return s.Fail(t.Context(), "a", "") }},
		{"block", func(s *Store) error { return s.Block(t.Context(), "a", "b") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			byHand := newStore(t)
			add(t, byHand, "a", "b")
			inRun := runStore(t, byHand.path, newRun(t), "one")
			first := claim(t, inRun, "a", "one")
			byHand.Fence("a", first.Attempt)
			query(t, byHand.path, expire)
			other := openStore(t, byHand.path, testScope())
			// The same agent with another attempt.
			claim(t, other, "a", "one")
			before := get(t, other, "a")
			for _, s := range []*Store{byHand, inRun} {
				err := tc.call(s)
				assert.ErrorIs(t, err, ErrLost)
				assert.Error(t, err, "attempt 1 of task 'a' was superseded by attempt 2")
			}
			assert.DeepEqual(t, get(t, other, "a"), before)
			assert.NilError(t, tc.call(other))
		})
	}
}

// The original program sets the assignee but no attempt.
func TestClaimByTheOriginalProgramIsDetected(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	inRun := runStore(t, s.path, newRun(t), "one")
	claim(t, inRun, "a", "one")
	query(t, s.path, "UPDATE tasks SET assignee = 'two'")
	assert.Error(t, inRun.Done(t.Context(), "a", ""), "task 'a' is held by agent 'two'")
}

// A run changes only tasks that it has claimed, even without its record.
func TestRunChangesOnlyItsOwnTasks(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b")
	run := newRun(t)
	inRun := runStore(t, s.path, run, "one")
	claim(t, s, "b", "two")
	assert.ErrorIs(t, inRun.Done(t.Context(), "b", ""), ErrLost)
	assert.ErrorIs(t, inRun.Fail(t.Context(), "b", ""), ErrLost)

	claim(t, inRun, "a", "one")
	assert.NilError(t, os.Remove(inRun.fence.run))
	assert.NilError(t, inRun.Renew(t.Context(), "a", "one", time.Minute))
	assert.NilError(t, inRun.Done(t.Context(), "a", `{"commit":"1"}`))
	entries := run.Entries()
	assert.Equal(t, len(entries), 1)
	assert.DeepEqual(t, entries[0], Entry{Op: opClaim, Scope: testScope(), Slug: "a", Agent: "one", Attempt: 1})
}

// Invalid lines and a record that is not a file are ignored.
func TestRunRecord(t *testing.T) {
	run := newRun(t)
	s := newStore(t)
	inRun := runStore(t, s.path, run, "one")
	_, err := run.file.WriteString("garbage\n{\"op\":\n[]\n\n")
	assert.NilError(t, err)
	assert.NilError(t, inRun.Create(t.Context(), NewTask{Slug: "a", Title: "T", Steps: []string{"x"}}))
	assert.NilError(t, inRun.Create(t.Context(), NewTask{Slug: "b", Title: "T"}))
	claim(t, inRun, "a", "one")
	assert.NilError(t, inRun.Fail(t.Context(), "a", "why"))
	var ops []string
	for _, e := range run.Entries() {
		ops = append(ops, e.Op+" "+e.Slug+e.Reason)
	}
	assert.DeepEqual(t, ops, []string{"create a", "create b", "claim a", "fail awhy"})

	assert.NilError(t, os.Remove(inRun.fence.run))
	assert.NilError(t, os.Mkdir(inRun.fence.run, 0o700))
	claim(t, inRun, "a", "one")
	assert.NilError(t, inRun.Done(t.Context(), "a", ""))
	assert.NilError(t, os.Remove(inRun.fence.run))
}
