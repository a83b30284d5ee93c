package backlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// fill adds n tasks.
func fill(tb testing.TB, s *Store, n int) {
	tb.Helper()
	var plan strings.Builder
	for i := range n {
		fmt.Fprintf(&plan, `{"id":"spec/%05d","t":"Task %d","p":%d,"spec":"spec.md","steps":["one","two"]`, i, i, i%4)
		plan.WriteString("}\n")
	}
	_, err := s.Sync(tb.Context(), strings.NewReader(plan.String()))
	assert.NilError(tb, err)
}

func newBenchStore(tb testing.TB, n int) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), tb.TempDir()+"/.ralph/tasks.db", Scope{Repo: "acme/shop", Branch: "main"})
	assert.NilError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	fill(tb, s, n)
	return s
}

func BenchmarkClaim(b *testing.B) {
	s := newBenchStore(b, 1000)
	for b.Loop() {
		_, err := s.Claim(b.Context(), ClaimOptions{Agent: "3c9e", Lease: time.Minute})
		assert.NilError(b, err)
		b.StopTimer()
		_, err = s.db.ExecContext(b.Context(), "UPDATE tasks SET status = 'open', assignee = NULL, lease_expires_at = NULL WHERE status = 'active'")
		assert.NilError(b, err)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}

func BenchmarkList10000(b *testing.B) {
	s := newBenchStore(b, 10000)
	for b.Loop() {
		tasks, err := s.Lines(b.Context(), Filter{})
		assert.NilError(b, err)
		assert.Equal(b, len(tasks), 10000)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := newBenchStore(b, 100).path
	for b.Loop() {
		s, err := Open(b.Context(), path, testScope())
		assert.NilError(b, err)
		assert.NilError(b, s.Close())
	}
}
