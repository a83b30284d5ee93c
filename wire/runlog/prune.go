package runlog

import (
	"io/fs"
	"time"
)

const (
	// keptLoops is how many loops stay in a work tree.
	keptLoops = 50
	// keptBytes is how much all of them may take.
	keptBytes = 2 << 30
	// keptFor protects loops in which something was written of late: nobody has
	// noted their end, so they may still run.
	keptFor = 24 * time.Hour
)

// prune removes the oldest loops beyond what is kept. What cannot be removed
// stays: a log is no reason not to work.
func (l *Log) prune(loopsMax int, bytesMax int64) {
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
		if id == l.Loop.ID || old.mayRun(latest[i]) || l.root.RemoveAll(old.Dir()) != nil {
			continue
		}
		left--
		total -= sizes[i]
	}
}

// measure returns what a loop takes, and when something was last written in it.
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

// mayRun says whether a loop in which something was last written then may still
// be at work.
func (l *Log) mayRun(latest time.Time) bool {
	loop, err := l.load()
	if err == nil && !loop.Ended.IsZero() {
		return false
	}
	return time.Since(latest) <= keptFor
}
