package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	nowFile = "now.json"
	// maxNote and maxTail bound reads of files that an agent can write, in bytes.
	maxNote = 64 << 10
	maxTail = 256 << 10
	// maxNames bounds listings of a directory that an agent can write.
	maxNames = 1000
)

// Now is the current run of a loop.
type Now struct {
	N       int       `json:"n"`
	Tasks   []string  `json:"tasks,omitempty"`
	Started time.Time `json:"started"`
}

// SetNow records the current run.
func (l *Log) SetNow(now Now) error {
	l.now = now
	if err := l.write(nowFile, now); err != nil {
		return fmt.Errorf("logging the current run: %w", err)
	}
	return nil
}

// State is the state of a loop according to its log.
type State struct {
	Loop
	// Now is the current or last run; zero before the first.
	Now Now
	// Last is the last run that has ended, or nil.
	Last *Iteration
}

// Recent returns the n newest loops of the worktree top, newest first. It is safe
// with logs that an agent writes: it follows no links, does not block, and reads
// a bounded amount.
func Recent(top string, n int) []State {
	logs, err := openLogs(top)
	if err != nil {
		return nil
	}
	defer func() { _ = logs.Close() }()
	var all []State
	for _, id := range slices.Backward(recentLoops(logs)) {
		if len(all) == n {
			break
		}
		if state, err := loadState(logs, id); err == nil {
			all = append(all, state)
		}
	}
	return all
}

// Latest returns the time of the last logged run in the worktree top, or zero. Like
// [Recent], it is safe with logs that an agent writes.
func Latest(top string) (latest time.Time) {
	logs, err := openLogs(top)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = logs.Close() }()
	for _, id := range recentLoops(logs) {
		info, err := logs.Lstat(path.Join(id, iterationsFile))
		if err == nil && info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return latest
}

// loopNames lists the directories of loops, oldest first, and possibly other files.
func loopNames(logs *os.Root) []string {
	all := slices.DeleteFunc(names(logs, maxNames), func(name string) bool {
		return !strings.Contains(name, "-") || strings.HasSuffix(name, ".log") // a transcript
	})
	slices.Sort(all) // names begin with the time
	return all
}

func recentLoops(logs *os.Root) []string {
	all := loopNames(logs)
	return all[max(0, len(all)-maxLoops):]
}

func loadState(logs *os.Root, id string) (State, error) {
	r, err := openLoop(logs, id)
	if err != nil {
		return State{}, err
	}
	defer r.Close()
	state := State{Loop: r.Loop}
	if b, err := readTail(r.dir, nowFile, maxNote); err == nil {
		_ = json.Unmarshal(b, &state.Now) // it stays zero
	}
	if b, err := readTail(r.dir, iterationsFile, maxTail); err == nil {
		state.Last = lastIteration(b)
	}
	return state, nil
}

// lastIteration parses the last complete line.
func lastIteration(end []byte) *Iteration {
	for _, line := range slices.Backward(bytes.Split(end, []byte("\n"))) {
		var it Iteration
		if len(line) > 0 && json.Unmarshal(line, &it) == nil && it.N > 0 {
			return &it
		}
	}
	return nil
}

// readTail reads the last limit bytes of a regular file.
func readTail(at *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openFile(at, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
