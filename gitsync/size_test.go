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

// Lists of files are longer than the buffer of a pipe.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	w := manyFiles(t, 2000)
	w.createSandbox()
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	w.inSandbox(`for f in d0*/*/*; do echo "$f" > "$f"; done; git commit -qam agent`)
	assert.Equal(t, w.fetch().Commits, 1)
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
