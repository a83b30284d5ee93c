package gitsync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// manyFiles creates a repository of n files with git fast-import.
func manyFiles(t testing.TB, n int) *fixture {
	t.Helper()
	w := emptyRepo(t)
	var stream strings.Builder
	stream.WriteString("commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\ndata 5\nfirst\n")
	for i := range n {
		content := fmt.Sprintf("file %d\n", i)
		_, _ = fmt.Fprintf(&stream, "M 644 inline d%02d/e%02d/f%d.txt\ndata %d\n%s\n", i%100, i/100%100, i, len(content), content)
	}
	w.run(w.root, strings.NewReader(stream.String()), "git", "fast-import", "--quiet")
	w.git("reset", "-q", "--hard")
	return w
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	w := manyFiles(t, 20_000).openRepo()
	began := time.Now()
	assert.NilError(t, w.repo.Check(t.Context()))
	checked := time.Since(began)
	w.fill()
	filled := time.Since(began) - checked
	w.commit("d00/e00/f0.txt", "changed\n")
	began = time.Now()
	assert.Equal(t, w.fetch().Commits, 1)
	t.Logf("20,000 files: check %s, fill %s, sync %s", checked, filled, time.Since(began))
	w.assertClean()
}

// BenchmarkSync syncs one commit in a repository of 10,000 files: at most 150 ms.
func BenchmarkSync(b *testing.B) {
	w := manyFiles(b, 10_000)
	w.createSandbox()
	var total time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		w.commit("d00/e00/f0.txt", fmt.Sprintf("change %d\n", n))
		b.StartTimer()
		began := time.Now()
		if res := w.fetch(); res.Commits != 1 {
			b.Fatalf("%d commits came", res.Commits)
		}
		total += time.Since(began)
		n++
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(n), "ms/sync")
}
