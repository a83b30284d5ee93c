package runlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	nowFile = "now.json"
	// maxNote and maxTail bound reads of files, in bytes.
	maxNote = 64 << 10
	maxTail = 256 << 10
	// maxNames bounds listings of a directory.
	maxNames = 100_000
)

// Now is the state of a loop in brief.
type Now struct {
	N       int       `json:"n"`                // current or last run; 0 before the first
	Tasks   []string  `json:"tasks,omitempty"`  // that it has claimed
	Title   string    `json:"title,omitempty"`  // of the first one
	Started time.Time `json:"started,omitzero"` // of the run
	State   LoopState `json:"state"`
	Since   time.Time `json:"since,omitzero"` // of the state
	Until   time.Time `json:"until,omitzero"`
	Text    string    `json:"text,omitempty"`
	// LastOutput is the time of the agent's last output.
	LastOutput time.Time `json:"last_output,omitzero"`
	Run        Usage     `json:"run"`
	Loop       Usage     `json:"loop"`   // including the run
	Counts     Counts    `json:"counts"` // tasks of the backlog
	Limits     Limits    `json:"limits"`
}

// SetNow records the current state.
func (l *Log) SetNow(now Now) error {
	l.now = &now
	if err := l.write(nowFile, now); err != nil {
		return fmt.Errorf("logging the current state: %w", err)
	}
	return nil
}

// Snapshot is the state of a loop according to its log.
type Snapshot struct {
	Loop
	// Now is the current state; zero if unknown.
	Now Now
	// Last is the last run that has ended, or nil.
	Last *Iteration
}

// Recent returns the n newest loops in the directory of logs that match, newest first. It reads
// a bounded amount.
func Recent(dir string, n int, matches func(Loop) bool) []Snapshot {
	var all []Snapshot
	eachLoop(dir, func(r *Reader) bool {
		if matches(r.Loop) {
			all = append(all, r.Snapshot())
		}
		return len(all) < n
	})
	return all
}

// Past is a loop with all its runs.
type Past struct {
	Snapshot
	Runs []Iteration
}

// History returns the loops in the directory of logs, newest first.
func History(dir string) []Past {
	var all []Past
	eachLoop(dir, func(r *Reader) bool {
		all = append(all, Past{Snapshot: r.Snapshot(), Runs: r.Iterations()})
		return true
	})
	return all
}

// eachLoop calls f with the loops in the directory of logs, newest first, until it returns false.
func eachLoop(dir string, f func(*Reader) bool) {
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer func() { _ = logs.Close() }()
	for _, id := range slices.Backward(recentLoops(logs)) {
		r, err := openLoop(logs, id)
		if err != nil {
			continue // not a loop, or pruned meanwhile
		}
		more := f(r)
		r.Close()
		if !more {
			return
		}
	}
}

// Worked reports whether the loop has run an agent, still runs, or has failed: a loop that found
// nothing to do does not hide the one before.
func (s Snapshot) Worked() bool {
	return s.Now.N > 0 || s.Last != nil || s.Ended.IsZero() || s.ExitCode != 0
}

// Any matches all loops.
func Any(Loop) bool { return true }

// loopNames lists the directories of loops, oldest first, and possibly other files.
func loopNames(logs *os.Root) []string {
	all := slices.DeleteFunc(names(logs), func(name string) bool { return !validLoop(name) })
	slices.Sort(all) // names begin with the time
	return all
}

func recentLoops(logs *os.Root) []string {
	all := loopNames(logs)
	return all[max(0, len(all)-maxLoops):]
}

// Snapshot returns the current state of the loop.
func (r *Reader) Snapshot() Snapshot {
	state := Snapshot{Loop: r.Loop}
	if b, err := readTail(r.dir, nowFile, maxNote); err == nil {
		_ = unmarshal(b, &state.Now) // it stays zero
	}
	if b, err := readTail(r.dir, iterationsFile, maxTail); err == nil {
		state.Last = lastIteration(b)
	}
	return state
}

// lastIteration parses the last complete line.
func lastIteration(end []byte) *Iteration {
	for _, line := range slices.Backward(bytes.Split(end, []byte("\n"))) {
		if it, ok := parseIteration(line); ok {
			return &it
		}
	}
	return nil
}

func parseIteration(line []byte) (it Iteration, ok bool) {
	return it, len(line) > 0 && unmarshal(line, &it) == nil && it.N > 0
}

// Iterations returns the runs that have ended; of very many, the last ones.
func (r *Reader) Iterations() (all []Iteration) {
	end, err := readTail(r.dir, iterationsFile, maxTail)
	if err != nil {
		return nil
	}
	for line := range bytes.SplitSeq(end, []byte("\n")) {
		if it, ok := parseIteration(line); ok {
			all = append(all, it)
		}
	}
	return all
}

// readTail reads the last limit bytes of a regular file.
func readTail(at *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenFile(at, name)
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
