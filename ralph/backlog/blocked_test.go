package backlog

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// fail is a failed attempt.
type fail func(t *testing.T, s *Store, path string)

func gaveUp(t *testing.T, s *Store, _ string) {
	t.Helper()
	claim(t, s, "a", "3c9e")
	assert.NilError(t, s.Fail(t.Context(), "a", "too hard"))
}

// sandboxDied leaves an expired lease.
func sandboxDied(t *testing.T, s *Store, path string) {
	t.Helper()
	claim(t, s, "a", "3c9e")
	query(t, path, "UPDATE tasks SET lease_expires_at = datetime('now', '-1 seconds') WHERE slug = 'a'")
}

func checkFailed(t *testing.T, s *Store, _ string) {
	t.Helper()
	claim(t, s, "a", "3c9e")
	assert.NilError(t, s.Done(t.Context(), "a", ""))
	assert.NilError(t, s.Reopen(t.Context(), "a", "check failed"))
}

func forgiven(t *testing.T, s *Store, path string) {
	t.Helper()
	gaveUp(t, s, path)
	assert.NilError(t, s.Forgive(t.Context(), "a"))
}

func TestThreeFailuresInARowBlockATask(t *testing.T) {
	for _, tc := range []struct {
		name     string
		attempts []fail
		blocked  bool
	}{
		{"twice", []fail{gaveUp, gaveUp}, false},
		{"given up", []fail{gaveUp, gaveUp, gaveUp}, true},
		{"the sandbox died", []fail{sandboxDied, sandboxDied, sandboxDied}, true},
		{"checks failed", []fail{checkFailed, checkFailed, checkFailed}, true},
		{"one of each", []fail{sandboxDied, gaveUp, checkFailed}, true},
		{"forgiven", []fail{gaveUp, forgiven, forgiven, gaveUp, forgiven}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := dbPath(t)
			s := openStore(t, path, testScope())
			add(t, s, "a", "b")
			for _, attempt := range tc.attempts {
				attempt(t, s, path)
			}
			next, err := s.Claim(t.Context(), ClaimOptions{Agent: "beef", Lease: DefaultLease})
			assert.NilError(t, err)
			if !tc.blocked {
				assert.Equal(t, next.Slug, "a")
				return
			}
			assert.Equal(t, next.Slug, "b")
			again := openStore(t, path, testScope()) // as the next loop does
			assert.Equal(t, get(t, again, "a").Status, StatusBlocked)
			assert.Assert(t, get(t, again, "a").FailReason != "")
			assert.Equal(t, get(t, again, "a").RetryCount, MaxAttempts)
			_, err = again.Claim(t.Context(), ClaimOptions{Slug: "a", Agent: "beef", Lease: DefaultLease})
			assert.ErrorIs(t, err, ErrNotEligible)
			counts, err := again.Counts(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, counts, Counts{Active: 1, Blocked: 1, Failed: 1})
			lines, err := again.Lines(t.Context(), Filter{Statuses: []string{StatusBlocked}})
			assert.NilError(t, err)
			assert.Equal(t, len(lines), 1)
			assert.Equal(t, lines[0].Status, StatusBlocked)

			open := StatusOpen
			assert.NilError(t, again.Update(t.Context(), "a", Changes{Status: &open}))
			assert.Equal(t, get(t, again, "a").Status, StatusOpen)
			gaveUp(t, again, path)
			gaveUp(t, again, path)
			assert.Equal(t, get(t, again, "a").Status, StatusOpen, "three more attempts")
		})
	}
}

// The next loop blocks a task before it starts an agent for it.
func TestReleaseDeadBlocksTasksWithExpiredLeases(t *testing.T) {
	path := dbPath(t)
	s := openStore(t, path, testScope())
	add(t, s, "a")
	for range MaxAttempts {
		sandboxDied(t, s, path)
	}
	assert.Equal(t, get(t, s, "a").Status, StatusActive)
	_, err := s.ReleaseDead(t.Context(), func(Agent) bool { return false })
	assert.NilError(t, err)
	assert.Equal(t, get(t, s, "a").Status, StatusBlocked)
	assert.Equal(t, get(t, s, "a").FailReason, "lease expired")
}

// Every way to read a task shows the same status.
func TestDisplayedStatus(t *testing.T) {
	s := newStore(t)
	add(t, s, "blocked", "done", "open", "waiting", "chained", "active")
	for _, edge := range []string{"waiting blocked", "open done", "chained waiting", "active blocked"} {
		task, blocker, _ := strings.Cut(edge, " ")
		assert.NilError(t, s.Block(t.Context(), task, blocker))
	}
	query(t, s.path, "UPDATE tasks SET failures = 3 WHERE slug = 'blocked'; UPDATE tasks SET status = slug WHERE slug IN ('done', 'active')")
	want := map[string]string{
		"blocked": StatusBlocked, "done": StatusDone, "open": StatusOpen, "waiting": StatusWaiting, "chained": StatusWaiting, "active": StatusActive,
	}
	got := map[string]string{}
	lines, err := s.Lines(t.Context(), Filter{})
	assert.NilError(t, err)
	for _, l := range lines {
		got[l.Slug] = l.Status
	}
	assert.DeepEqual(t, got, want)
	tasks, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	for _, task := range tasks {
		assert.Equal(t, task.Status, want[task.Slug], task.Slug)
		assert.Equal(t, get(t, s, task.Slug).Status, want[task.Slug])
		for _, b := range task.Blockers {
			assert.Equal(t, b.Status, want[b.Slug])
		}
	}
	for status, slugs := range map[string]int{StatusOpen: 3, StatusWaiting: 2, StatusBlocked: 1} {
		lines, err := s.Lines(t.Context(), Filter{Statuses: []string{status}})
		assert.NilError(t, err)
		assert.Equal(t, len(lines), slugs, status)
	}
	counts, err := s.Counts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, counts, Counts{Open: 1, Done: 1, Blocked: 4, Waiting: 3, Failed: 1})
}

// The result of a task that blocks many is read once.
func TestResultOfManyBlockedTasks(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	var plan strings.Builder
	for i := range 2000 {
		_, _ = fmt.Fprintf(&plan, "{\"id\":\"t%d\",\"t\":\"T\",\"deps\":[\"a\"]}\n", i)
	}
	_, err := s.Sync(t.Context(), strings.NewReader(plan.String()))
	assert.NilError(t, err)
	claim(t, s, "a", "me")
	result := `{"commit":"` + strings.Repeat("x", 200_000) + `"}`
	assert.NilError(t, s.Done(t.Context(), "a", result))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tasks, err := s.List(t.Context(), Filter{})
	runtime.ReadMemStats(&after)
	assert.NilError(t, err)
	assert.Equal(t, len(tasks), 2001)
	assert.Equal(t, get(t, s, "t0").Blockers[0].Result, result)
	assert.Assert(t, after.TotalAlloc-before.TotalAlloc < 100<<20, "%d bytes", after.TotalAlloc-before.TotalAlloc)
}
