package runlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kind is one of the things that are kept of every run.
type Kind string

// What people saw, and what the agent printed.
const (
	Rendered Kind = ".log"
	Raw      Kind = ".jsonl"
)

// Reader reads the log of one loop from outside, where agents can write. It
// follows no links, and reads nothing but plain files.
type Reader struct {
	// Loop is what the log says of the loop, which is no more than a claim.
	Loop Loop
	dir  *os.Root
}

// Find opens the log of the loop of the work tree top that began or was resumed
// last, of those that suit. The error is [fs.ErrNotExist] if there is none.
func Find(top string, suits func(Loop) bool) (*Reader, error) {
	logs, err := openLogs(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	var found *Reader
	for _, id := range names(logs, looked) {
		if !strings.Contains(id, "-") {
			continue
		}
		r, err := openLoop(logs, id)
		if err != nil {
			continue // no loop's folder, or pruned meanwhile
		}
		if !suits(r.Loop) || found != nil && !r.Loop.after(found.Loop) {
			r.Close()
			continue
		}
		if found != nil {
			found.Close()
		}
		found = r
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

// after orders loops; those of the same moment by their names.
func (l Loop) after(other Loop) bool {
	if a, b := l.begun(), other.begun(); !a.Equal(b) {
		return a.After(b)
	}
	return l.ID > other.ID
}

// openLogs opens the folder of logs, which must not be behind a link.
func openLogs(top string) (*os.Root, error) {
	at, err := os.OpenRoot(top)
	for part := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return nil, err
		}
		var next *os.Root
		next, err = openDir(at, part)
		_ = at.Close()
		at = next
	}
	return at, err
}

func openDir(at *os.Root, name string) (*os.Root, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s in the log is no folder: it is left alone", name)
	}
	opened, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := opened.Stat("."); err != nil || !os.SameFile(before, after) {
		_ = opened.Close()
		return nil, fmt.Errorf("%s in the log has been exchanged: it is left alone", name)
	}
	return opened, nil
}

func openLoop(logs *os.Root, id string) (*Reader, error) {
	folder, err := openDir(logs, id)
	if err != nil {
		return nil, err
	}
	r := &Reader{Loop: Loop{ID: id}, dir: folder}
	if _, err := r.Reload(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the log.
func (r *Reader) Close() { _ = r.dir.Close() }

// Dir is the folder of the loop, relative to the work tree.
func (r *Reader) Dir() string { return path.Join(dir, r.Loop.ID) }

// Reload reads again what the log says of the loop.
func (r *Reader) Reload() (Loop, error) {
	f, err := openFile(r.dir, loopFile)
	if err != nil {
		return Loop{}, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return Loop{}, err
	}
	loop, err := parseLoop(b)
	if err != nil {
		return Loop{}, err
	}
	loop.ID = r.Loop.ID
	r.Loop = loop
	return loop, nil
}

// parseLoop reads a loop's file, in which an agent can have written anything.
func parseLoop(b []byte) (Loop, error) {
	var loop Loop
	if err := json.Unmarshal(b, &loop); err != nil {
		return Loop{}, fmt.Errorf("reading the log of a loop: %w", err)
	}
	if loop.ExitCode < 0 || loop.ExitCode > 255 {
		loop.ExitCode = 1
	}
	return loop, nil
}

// openFile opens a plain file that is no link.
func openFile(at *os.Root, name string) (*os.File, error) {
	before, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s in the log is no plain file: it is left alone", name)
	}
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // in case that it is exchanged for a pipe
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		_ = f.Close()
		return nil, fmt.Errorf("%s in the log has been exchanged: it is left alone", name)
	}
	return f, nil
}

// names lists a folder, as far as limit.
func names(at *os.Root, limit int) []string {
	folder, err := at.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	found, _ := folder.Readdirnames(limit)
	return found
}

// Cursor is how far a log was read.
type Cursor struct {
	run    int
	offset int64
	begun  bool
}

// maxRun bounds what is read of one run, in bytes, and maxFiles the files that
// are looked at: an agent can have written more.
const (
	maxRun   = maxStream + 1<<20
	maxFiles = 100_000
)

// Copy writes to w what has come since at, run by run, and returns how far it
// got.
func (r *Reader) Copy(w io.Writer, kind Kind, at Cursor) (Cursor, error) {
	for {
		next, more := r.next(kind, at) // before the read: what comes later is for the next time
		if at.begun {
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

// CopyRun writes to w what is kept of run n from offset on, and returns where
// that ends. The error is [fs.ErrNotExist] if there is no such run.
func (r *Reader) CopyRun(w io.Writer, kind Kind, n int, offset int64) (int64, error) {
	end, err := r.copyRun(w, kind, n, offset)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("reading the log of run %d: %w", n, err)
	}
	return end, err
}

func (r *Reader) copyRun(w io.Writer, kind Kind, n int, offset int64) (int64, error) {
	f, err := openFile(r.dir, strconv.Itoa(n)+string(kind))
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

// next is the run after the one at the cursor, of which something is kept.
func (r *Reader) next(kind Kind, at Cursor) (n int, found bool) {
	for _, name := range names(r.dir, maxFiles) {
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
