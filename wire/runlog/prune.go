package runlog

import (
	"io/fs"
	"os"
	"time"
)

const (
	// maxLoops bounds the number of logged loops in a worktree.
	maxLoops = 50
	// maxBytes bounds their size.
	maxBytes = 2 << 30
	// minAge is the age since the last write at which an unfinished loop can be
	// pruned.
	minAge = 24 * time.Hour
)

// Prune removes the oldest loops of the worktree top, beyond the limits of a worktree, whose logs
// come from elsewhere. Those that keep reports, and those that can be running, stay.
func Prune(top string, keep func(loop string) bool) {
	logs, err := OpenLogs(top)
	if err != nil {
		return // there are none, or an agent has replaced the directory
	}
	_ = logs.Close()
	root, err := os.OpenRoot(top)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	(&Log{root: root}).prune(maxLoops, maxBytes, keep)
}

// is reports whether a loop is that of the log.
func (l *Log) is(loop string) bool { return loop == l.Loop.ID }

// prune removes the oldest loops beyond the limits. Errors are ignored.
func (l *Log) prune(loopsMax int, bytesMax int64, keep func(loop string) bool) {
	all := loops(l.root)
	sizes, total := make([]int64, len(all)), int64(0)
	latest := make([]time.Time, len(all))
	for i, id := range all {
		sizes[i], latest[i] = l.measure(id)
		total += sizes[i]
	}
	left := len(all)
	for i, id := range all {
		if left <= loopsMax && total <= bytesMax {
			return
		}
		old := Log{root: l.root, Loop: Loop{ID: id}}
		if keep(id) || old.mayRun(latest[i]) || l.root.RemoveAll(old.Dir()) != nil {
			continue
		}
		left--
		total -= sizes[i]
	}
}

// measure returns the size of a loop's log and the time of the last write.
func (l *Log) measure(id string) (size int64, latest time.Time) {
	one := Log{root: l.root, Loop: Loop{ID: id}}
	entries, err := fs.ReadDir(l.root.FS(), one.Dir())
	if err != nil {
		return 0, time.Time{}
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		size += info.Size()
		if info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return size, latest
}

// mayRun reports whether a loop with this last write can still be running.
func (l *Log) mayRun(latest time.Time) bool {
	loop, err := l.load()
	if err == nil && !loop.Ended.IsZero() {
		return false
	}
	return time.Since(latest) <= minAge
}
