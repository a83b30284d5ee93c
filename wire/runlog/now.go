package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	nowFile = "now.json"
	// readNote and readEnd bound what is read of files that an agent can write,
	// by who looks from outside, in bytes.
	readNote = 64 << 10
	readEnd  = 256 << 10
)

// Now is what a loop is at.
type Now struct {
	N       int       `json:"n"` // the run
	Tasks   []string  `json:"tasks,omitempty"`
	Started time.Time `json:"started"` // the run
}

// SetNow notes what the loop is at, for who looks from outside.
func (l *Log) SetNow(now Now) error {
	if err := l.write(nowFile, now); err != nil {
		return fmt.Errorf("logging what the loop is at: %w", err)
	}
	return nil
}

// Seen is a loop as its log shows it to who looks from outside.
type Seen struct {
	Loop
	// Now is what it was at last; zero if it has not begun a run, or is of a
	// version that did not note that.
	Now Now
	// Last is its last run that has ended; nil without one.
	Last *Iteration
}

// Recent returns the newest loops of the work tree top, the newest first, at
// most n. It is for who looks from outside: agents can write there, so nothing
// outside of top is looked at, nothing waits, and only so much is read.
func Recent(top string, n int) []Seen {
	logs, err := openLogs(top)
	if err != nil {
		return nil
	}
	defer func() { _ = logs.Close() }()
	var all []Seen
	for _, id := range slices.Backward(recentNames(logs)) {
		if len(all) == n {
			break
		}
		if seen, err := look(logs, id); err == nil {
			all = append(all, seen)
		}
	}
	return all
}

// recentNames lists the folders of loops, oldest first.
func recentNames(logs *os.Root) []string {
	all := slices.DeleteFunc(names(logs, looked), func(name string) bool { return !strings.Contains(name, "-") })
	slices.Sort(all) // they begin with the time
	return all[max(0, len(all)-keptLoops):]
}

func look(logs *os.Root, id string) (Seen, error) {
	r, err := openLoop(logs, id)
	if err != nil {
		return Seen{}, err
	}
	defer r.Close()
	seen := Seen{Loop: r.Loop}
	if b, err := peek(r.dir, nowFile, readNote); err == nil {
		_ = json.Unmarshal(b, &seen.Now) // half of it would be nothing
	}
	if b, err := peek(r.dir, iterationsFile, readEnd); err == nil {
		seen.Last = lastIteration(b)
	}
	return seen, nil
}

// lastIteration reads the last line that is whole.
func lastIteration(end []byte) *Iteration {
	for _, line := range slices.Backward(bytes.Split(end, []byte("\n"))) {
		var it Iteration
		if len(line) > 0 && json.Unmarshal(line, &it) == nil && it.N > 0 {
			return &it
		}
	}
	return nil
}

// peek reads the end of a file.
func peek(at *os.Root, name string, limit int64) ([]byte, error) {
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
