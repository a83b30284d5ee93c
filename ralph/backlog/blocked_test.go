package backlog

import (
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
			assert.Equal(t, counts, Counts{Active: 1, Blocked: 1, Waiting: 1})
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
	_, err := s.ReleaseDead(t.Context(), "box")
	assert.NilError(t, err)
	assert.Equal(t, get(t, s, "a").Status, StatusBlocked)
	assert.Equal(t, get(t, s, "a").FailReason, "lease expired")
}
