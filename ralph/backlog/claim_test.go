package backlog

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestClaimEligibility(t *testing.T) {
	for _, tc := range []struct {
		name, sql string
		retries   int
		eligible  bool
	}{
		{name: "open", sql: "", eligible: true},
		{name: "active with a lease", sql: "UPDATE tasks SET status = 'active', lease_expires_at = datetime('now', '+60 seconds') WHERE slug = 'x'"},
		{name: "active without a lease", sql: "UPDATE tasks SET status = 'active' WHERE slug = 'x'"},
		{name: "lease expired", sql: "UPDATE tasks SET status = 'active', assignee = 'old', lease_expires_at = datetime('now', '-1 seconds') WHERE slug = 'x'", retries: 1, eligible: true},
		{name: "lease expired without retry count", sql: "UPDATE tasks SET status = 'active', retry_count = NULL, lease_expires_at = datetime('now', '-1 seconds') WHERE slug = 'x'", retries: 1, eligible: true},
		{name: "done", sql: "UPDATE tasks SET status = 'done' WHERE slug = 'x'"},
		{name: "deleted", sql: "UPDATE tasks SET status = 'deleted' WHERE slug = 'x'"},
		{name: "blocked by open", sql: blockX},
		{name: "blocked by active", sql: blockX + "UPDATE tasks SET status = 'active' WHERE slug = 'b'"},
		{name: "blocker done", sql: blockX + "UPDATE tasks SET status = 'done' WHERE slug = 'b'", eligible: true},
		{name: "blocker deleted", sql: blockX + "UPDATE tasks SET status = 'deleted' WHERE slug = 'b'", eligible: true},
		{name: "blocked by itself", sql: "INSERT INTO task_deps SELECT id, id FROM tasks WHERE slug = 'x'"},
		{name: "other scope", sql: "UPDATE tasks SET scope_branch = 'other' WHERE slug = 'x'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "x", "b")
			query(t, s.path, tc.sql)
			claimable, _, err := s.Peek(t.Context(), -1)
			assert.NilError(t, err)
			listed := false
			for _, task := range claimable {
				listed = listed || task.Slug == "x"
			}
			assert.Equal(t, listed, tc.eligible, "peek must agree with claim")

			task, err := s.Claim(t.Context(), ClaimOptions{Slug: "x", Agent: "me", Lease: time.Minute})
			if !tc.eligible {
				assert.ErrorIs(t, err, ErrNotEligible)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, task.Status, StatusActive)
			assert.Equal(t, task.Assignee, "me")
			assert.Equal(t, task.RetryCount, tc.retries)
			assert.DeepEqual(t, task, get(t, s, "x"))
		})
	}
}

const blockX = "INSERT INTO task_deps SELECT x.id, b.id FROM tasks x, tasks b WHERE x.slug = 'x' AND b.slug = 'b';"

func TestClaimOrder(t *testing.T) {
	s := newStore(t)
	add(t, s, "z-first", "a-second")
	assert.NilError(t, s.Create(t.Context(), NewTask{Slug: "urgent", Title: "t", Priority: 0}))
	add(t, s, "old")
	query(t, s.path, "UPDATE tasks SET created_at = '2001-01-01 00:00:00' WHERE slug = 'old'; UPDATE tasks SET created_at = '2002-01-01 00:00:00' WHERE slug <> 'old'")
	var order []string
	for range 4 {
		order = append(order, claim(t, s, "", "me").Slug)
	}
	assert.DeepEqual(t, order, []string{"urgent", "old", "z-first", "a-second"})
	_, err := s.Claim(t.Context(), ClaimOptions{Agent: "me"})
	assert.ErrorIs(t, err, ErrNoneEligible)
}

func TestLeaseLength(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	_, err := s.Claim(t.Context(), ClaimOptions{Slug: "a", Lease: 90 * time.Second})
	assert.NilError(t, err)
	left := "SELECT strftime('%s', lease_expires_at) - strftime('%s', updated_at) FROM tasks"
	assert.Equal(t, query(t, s.path, left), "90\n")
	assert.NilError(t, s.Renew(t.Context(), "a", "", time.Hour))
	assert.Equal(t, query(t, s.path, left), "3600\n")
	assert.Equal(t, query(t, s.path, "SELECT typeof(assignee) FROM tasks"), "text\n")
}

func TestRenew(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "free")
	claim(t, s, "a", "me")
	query(t, s.path, "UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00' WHERE slug = 'a'")
	assert.NilError(t, s.Renew(t.Context(), "a", "me", time.Minute), "an expired lease can be renewed")

	err := s.Renew(t.Context(), "a", "you", time.Minute)
	assert.ErrorIs(t, err, ErrNotAssignee)
	assert.Error(t, err, "agent 'you' is not the assignee of task 'a'")
	err = s.Renew(t.Context(), "free", "me", time.Minute)
	assert.ErrorIs(t, err, ErrNotActive)
	assert.Error(t, err, "task 'free' is not active (status: open)")
	err = s.Renew(t.Context(), "none", "me", time.Minute)
	assert.ErrorIs(t, err, ErrNotFound)
	assert.Error(t, err, "task 'none' not found")
}

func TestDoneStoresTheResultUnchanged(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b")
	claim(t, s, "a", "me")
	result := "{ \"commit\" : \"9f1c2ab\",\n \"note\":\"it's <fine> \U0001F600\" }"
	assert.NilError(t, s.Done(t.Context(), "a", result))
	task := get(t, s, "a")
	assert.Equal(t, task.Result, result)
	assert.Equal(t, task.Assignee, "me")
	assert.Assert(t, task.LeaseExpiresAt != "")
	assert.ErrorIs(t, s.Done(t.Context(), "a", ""), ErrNotActive)

	query(t, s.path, "UPDATE tasks SET status = 'active', result = 'kept' WHERE slug = 'b'")
	assert.NilError(t, s.Done(t.Context(), "b", ""))
	assert.Equal(t, get(t, s, "b").Result, "kept")
}

func TestFailReopensTheTask(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	for i, reason := range []string{"build broke", ""} {
		claim(t, s, "a", "me")
		assert.NilError(t, s.Fail(t.Context(), "a", reason))
		task := get(t, s, "a")
		assert.Equal(t, task.Status, StatusOpen)
		assert.Equal(t, task.RetryCount, i+1)
		assert.Equal(t, task.FailReason, reason)
		assert.Equal(t, task.Assigned, false)
		assert.Equal(t, task.LeaseExpiresAt, "")
	}
	assert.Equal(t, query(t, s.path, "SELECT fail_reason IS NULL FROM tasks"), "1\n")
}

func TestPeek(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b", "c", "held", "late", "stuck")
	claim(t, s, "held", "h")
	claim(t, s, "late", "l")
	query(t, s.path, `UPDATE tasks SET lease_expires_at = '2001-01-01 00:00:00' WHERE slug = 'late';
		UPDATE tasks SET status = 'active' WHERE slug = 'stuck'`)
	for _, tc := range []struct {
		n    int
		want []string
	}{
		{-1, []string{"a", "b", "c", "late"}}, {0, []string{}}, {2, []string{"a", "b"}}, {99, []string{"a", "b", "c", "late"}},
	} {
		claimable, held, err := s.Peek(t.Context(), tc.n)
		assert.NilError(t, err)
		assert.DeepEqual(t, slugs(claimable), tc.want)
		assert.DeepEqual(t, slugs(held), []string{"held"})
	}
}

func TestDoneTaskKeepsNoReason(t *testing.T) {
	for name, finish := range map[string]func(*Store) error{
		"done":   func(s *Store) error { return s.Done(t.Context(), "a", "") },
		"update": func(s *Store) error { return s.Update(t.Context(), "a", Changes{Status: new(StatusDone)}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a")
			claim(t, s, "a", "me")
			assert.NilError(t, s.Fail(t.Context(), "a", "build broke"))
			claim(t, s, "a", "me")
			assert.NilError(t, finish(s))
			assert.Equal(t, get(t, s, "a").FailReason, "")
		})
	}
}
