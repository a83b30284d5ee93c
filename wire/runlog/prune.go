package runlog

import (
	"os"
	"time"
)

const (
	// maxLoops bounds the number of logged loops in a directory.
	maxLoops = 50
	// maxBytes bounds their size.
	maxBytes = 2 << 30
	// minAge is the age since the last write at which an unfinished loop can be
	// pruned.
	minAge = 24 * time.Hour
)

// prune removes the oldest loops beyond the limits, but not the one to keep. Errors are ignored.
func prune(logs *os.Root, loopsMax int, bytesMax int64, keep string) {
	all := loopNames(logs)
	sizes, total := make([]int64, len(all)), int64(0)
	running := make([]bool, len(all))
	for i, id := range all {
		sizes[i], running[i] = measure(logs, id)
		total += sizes[i]
	}
	left := len(all)
	for i, id := range all {
		if left <= loopsMax && total <= bytesMax {
			return
		}
		if id == keep || running[i] || logs.RemoveAll(id) != nil {
			continue
		}
		left--
		total -= sizes[i]
	}
}

// measure returns the size of a loop's log, and whether it can still be running.
func measure(logs *os.Root, id string) (size int64, running bool) {
	at, err := OpenDir(logs, id)
	if err != nil {
		return 0, false
	}
	defer func() { _ = at.Close() }()
	var latest time.Time
	for _, name := range names(at) {
		info, err := at.Lstat(name)
		if err != nil {
			continue
		}
		size += info.Size()
		if info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	loop, err := readLoop(at)
	return size, (err != nil || loop.Ended.IsZero()) && time.Since(latest) <= minAge
}
