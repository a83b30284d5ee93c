package backlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

const expireAll = "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00'"

// oldSchema is the schema of the original program.
func oldSchema() string {
	return strings.NewReplacer(
		"  attempt INTEGER DEFAULT 0,\n", "", "  failures INTEGER DEFAULT 0,\n", "", "  questions TEXT,\n", "", "  claimed_by TEXT,\n", "",
		"  taken_from TEXT,\n  imported TEXT,\n", "", "DEFAULT 'active',\n  session TEXT\n", "DEFAULT 'active'\n",
	).Replace(schema)
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
	query(t, path, oldSchema()+strings.ReplaceAll(insert, "%", "old")+
		"INSERT INTO agents (id, pid, hostname, scope_repo, scope_branch) VALUES ('3c9e', 7, 'box', 'acme/shop', 'main')")
	s := openStore(t, path, testScope())
	assert.Equal(t, claim(t, s, "old", "me").Attempt, 1)
	query(t, path, strings.ReplaceAll(insert, "%", "new"))
	assert.Equal(t, claim(t, s, "new", "me").Attempt, 1)
	agents, err := s.Agents(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, agents[0].PID, 7)
	assert.Equal(t, agents[0].Loop, false)
}

// A superseded attempt changes nothing; callers without an attempt are not fenced.
func TestSupersededAttemptIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(*Store) error
	}{
		{"renew", func(s *Store) error { return s.Renew(t.Context(), "a", "one", time.Minute) }},
		{"done", func(s *Store) error { return s.Done(t.Context(), "a", "") }},
		{"finish", func(s *Store) error { return s.Finish(t.Context(), "a", "") }},
		{"fail", func(s *Store) error { return s.Fail(t.Context(), "a", "") }},
		{"block", func(s *Store) error { return s.Block(t.Context(), "a", "b") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a", "b")
			first := claim(t, s, "a", "one")
			query(t, s.path, expireAll)
			claim(t, s, "a", "one") // the same agent with another attempt
			before := get(t, s, "a")
			err := tc.call(s.Fence("a", first.Attempt))
			assert.ErrorIs(t, err, ErrLost)
			assert.Error(t, err, "attempt 1 of task 'a' was superseded by attempt 2")
			assert.DeepEqual(t, get(t, s, "a"), before)
			assert.NilError(t, tc.call(s))
		})
	}
}

func TestAgentChangesOnlyTasksThatItHolds(t *testing.T) {
	title := "T"
	for _, tc := range []struct {
		name string
		call func(*Store) error
	}{
		{"renew", func(s *Store) error { return s.Renew(t.Context(), "a", "one", time.Minute) }},
		{"done", func(s *Store) error { return s.Done(t.Context(), "a", "") }},
		{"finish", func(s *Store) error { return s.Finish(t.Context(), "a", "") }},
		{"fail", func(s *Store) error { return s.Fail(t.Context(), "a", "") }},
		{"ask", func(s *Store) error { return s.Ask(t.Context(), "a", "one", NewQuestion{Text: "Why?"}) }},
		{"update", func(s *Store) error { return s.Update(t.Context(), "a", Changes{Title: &title}) }},
		{"block", func(s *Store) error { return s.Block(t.Context(), "a", "b") }},
		{"unblock", func(s *Store) error { return s.Unblock(t.Context(), "a", "c") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a", "b", "c")
			assert.NilError(t, s.Block(t.Context(), "a", "c"))
			query(t, s.path, "UPDATE tasks SET status = 'deleted' WHERE slug = 'c'")
			agent := s.As("one")
			for _, status := range []string{StatusOpen, StatusDone, StatusDeleted, StatusQuestion} {
				query(t, s.path, "UPDATE tasks SET assignee = 'one', status = '"+status+"' WHERE slug = 'a'")
				assert.ErrorIs(t, tc.call(agent), ErrNotActive)
			}
			query(t, s.path, "UPDATE tasks SET status = 'open' WHERE slug = 'a'")
			claim(t, s, "a", "two")
			before := get(t, s, "a")
			err := tc.call(agent)
			assert.ErrorIs(t, err, ErrLost)
			assert.Error(t, err, "task 'a' is held by agent 'two'")
			assert.DeepEqual(t, get(t, s, "a"), before)

			query(t, s.path, expireAll)
			claim(t, s, "a", "one")
			assert.NilError(t, tc.call(agent))
		})
	}
}

func TestNewTasksOfAgentsAreLimited(t *testing.T) {
	s := newStore(t)
	long, large := strings.Repeat("x", maxSlug+1), strings.Repeat("x", maxText)
	for _, task := range []NewTask{
		{Slug: long, Title: "T"}, {Slug: "a", Title: "T", Description: large}, {Slug: "a", Title: "T", Steps: []string{large[1:], "y"}},
	} {
		assert.ErrorIs(t, s.As("one").Create(t.Context(), task), ErrTooLarge)
		assert.NilError(t, s.Create(t.Context(), task), "of the user")
		assert.NilError(t, s.Delete(t.Context(), task.Slug))
	}
	_, err := s.As("one").Sync(t.Context(), strings.NewReader(`{"id":"`+long+`","t":"T"}`))
	assert.ErrorIs(t, err, ErrTooLarge)
}
