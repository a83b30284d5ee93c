package runlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kind is a kind of output of a run.
type Kind string

// Kinds of output.
const (
	Rendered Kind = ".log"        // as displayed
	Raw      Kind = ".jsonl"      // as printed by the agent
	Checked  Kind = ".checks.log" // by its checks
)

// Reader reads the log of a loop. The contents are not trusted: they have what agents print.
type Reader struct {
	Loop Loop // not trusted
	dir  *os.Root
}

// Find opens the log of the matching loop in the directory of logs that was started or
// resumed last, of those that have [Snapshot.Worked] if there is one. The error is
// [fs.ErrNotExist] if there is none.
func Find(dir string, matches func(Loop) bool) (*Reader, error) {
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	var found *Reader
	worked := false
	for _, id := range loopNames(logs) {
		r, err := openLoop(logs, id)
		if err != nil {
			continue // not a loop, or pruned meanwhile
		}
		if !matches(r.Loop) {
			r.Close()
			continue
		}
		works := r.Snapshot().Worked()
		if found != nil && (worked && !works || worked == works && !r.Loop.after(found.Loop)) {
			r.Close()
			continue
		}
		if found != nil {
			found.Close()
		}
		found, worked = r, works
	}
	if found == nil {
		return nil, fs.ErrNotExist
	}
	return found, nil
}

func (l Loop) begun() time.Time {
	if l.Resumed.After(l.Started) {
		return l.Resumed
	}
	return l.Started
}

// after orders loops by time, then by name.
func (l Loop) after(other Loop) bool {
	if a, b := l.begun(), other.begun(); !a.Equal(b) {
		return a.After(b)
	}
	return l.ID > other.ID
}

// OpenDir opens a directory without following links.
func OpenDir(at *os.Root, name string) (*os.Root, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s in the log is not a directory", name)
	}
	opened, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := opened.Stat("."); err != nil || !os.SameFile(before, after) {
		_ = opened.Close()
		return nil, fmt.Errorf("%s in the log was replaced while it was opened", name)
	}
	return opened, nil
}

func openLoop(logs *os.Root, id string) (*Reader, error) {
	at, err := OpenDir(logs, id)
	if err != nil {
		return nil, err
	}
	r := &Reader{Loop: Loop{ID: id}, dir: at}
	if _, err := r.Reload(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the log.
func (r *Reader) Close() { _ = r.dir.Close() }

// Reload reads the state of the loop again.
func (r *Reader) Reload() (Loop, error) {
	loop, err := readLoop(r.dir)
	if err != nil {
		return Loop{}, err
	}
	loop.ID = r.Loop.ID
	r.Loop = loop
	return loop, nil
}

// parseLoop parses the state of a loop.
func parseLoop(b []byte) (Loop, error) {
	var loop Loop
	if err := json.Unmarshal(b, &loop); err != nil {
		return Loop{}, fmt.Errorf("parsing the log of a loop: %w", err)
	}
	if loop.ExitCode < 0 || loop.ExitCode > 255 {
		loop.ExitCode = 1
	}
	return loop, nil
}

// OpenFile opens a regular file without following links.
func OpenFile(at *os.Root, name string) (*os.File, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s in the log is not a regular file", name)
	}
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it could have been replaced by a pipe
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		_ = f.Close()
		return nil, fmt.Errorf("%s in the log was replaced while it was opened", name)
	}
	return f, nil
}

// names lists a directory.
func names(at *os.Root) []string {
	dir, err := at.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	found, _ := dir.Readdirnames(maxNames)
	return found
}

// Cursor is a position in a log.
type Cursor struct {
	run    int
	offset int64
	begun  bool
}

// maxRun bounds reads of one run, in bytes.
const maxRun = maxStream + 1<<20

// Copy writes the output since at to w, run by run, and returns its end.
func (r *Reader) Copy(w io.Writer, kind Kind, at Cursor) (Cursor, error) {
	for {
		next, more := r.next(kind, at) // before the read, so that no output is skipped
		if at.begun && at.offset < maxRun {
			var err error
			if at.offset, err = r.copyRun(w, kind, at.run, at.offset); err != nil {
				return at, err
			}
		}
		if !more {
			return at, nil
		}
		at = Cursor{run: next, begun: true}
	}
}

// Since returns the position of the output of the runs that had not ended at a time.
func (r *Reader) Since(t time.Time) (at Cursor) {
	for _, it := range r.Iterations() {
		if ended := it.Started.Add(time.Duration(it.Seconds * float64(time.Second))); ended.Before(t) {
			at = Cursor{run: it.N, offset: maxRun, begun: true}
		}
	}
	return at
}

// CopyRun writes the output of run n from offset on to w, and returns the offset of
// its end. The error is [fs.ErrNotExist] if there is no such run.
func (r *Reader) CopyRun(w io.Writer, kind Kind, n int, offset int64) (int64, error) {
	end, err := r.copyRun(w, kind, n, offset)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("reading the log of run %d: %w", n, err)
	}
	return end, err
}

// Last returns the offset of the last limit bytes of the output of run n, but at least offset.
func (r *Reader) Last(kind Kind, n int, offset, limit int64) int64 {
	info, err := r.dir.Lstat(strconv.Itoa(n) + string(kind))
	if err != nil {
		return offset
	}
	return max(offset, min(info.Size(), maxRun)-limit)
}

func (r *Reader) copyRun(w io.Writer, kind Kind, n int, offset int64) (int64, error) {
	f, err := OpenFile(r.dir, strconv.Itoa(n)+string(kind))
	if err != nil {
		return offset, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	copied, err := io.Copy(w, io.LimitReader(f, max(0, maxRun-offset)))
	return offset + copied, err
}

// next returns the next run with output after the cursor.
func (r *Reader) next(kind Kind, at Cursor) (n int, found bool) {
	for _, name := range names(r.dir) {
		number, ok := strings.CutSuffix(name, string(kind))
		run, err := strconv.Atoi(number)
		if !ok || err != nil || run < 0 || strconv.Itoa(run) != number {
			continue
		}
		if (!at.begun || run > at.run) && (!found || run < n) {
			n, found = run, true
		}
	}
	return n, found
}
