package runlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

const (
	// maxFile bounds a file of a loop that is received, in bytes. The longest is the output of a run.
	maxFile = 80 << 20
	// maxState bounds a file with the state of a loop, in bytes.
	maxState = 1 << 20
	// maxLoop bounds a loop that is received, in bytes, without its events and the list of its runs: output does not
	// displace them.
	maxLoop = 1 << 30
	// maxReceived bounds the number of its files.
	maxReceived = 20_000
)

var (
	loopName = lazyregexp.New(`^[0-9]{8}-[0-9]{6}-[0-9A-Za-z._-]{1,80}$`)
	// fileName matches the files that grow. The others are replaced as a whole.
	fileName = lazyregexp.New(`^[0-9a-z][0-9a-z.-]{0,59}\.(log|jsonl)$`)
)

// validLoop reports whether name can be a loop's, and is no transcript's.
func validLoop(name string) bool {
	return loopName().MatchString(name) && !strings.HasSuffix(name, ".log") && filepath.IsLocal(name)
}

// Received is the log of a loop that sends what it writes. What it sends is not trusted.
type Received struct {
	Loop Loop
	// Events are the events that were appended.
	Events []Event

	files local
	size  int64
	count int
}

// Receive opens the log of an existing loop in the directory of logs.
func Receive(dir, loop string) (*Received, error) {
	r, err := receive(dir, loop)
	if err != nil {
		return nil, fmt.Errorf("receiving the log of loop %q: %w", loop, err)
	}
	return r, nil
}

func receive(dir, loop string) (*Received, error) {
	if !validLoop(loop) {
		return nil, errors.New("invalid name")
	}
	logs, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	l, err := openLog(logs, loop)
	if err != nil {
		return nil, err
	}
	r := &Received{Loop: l.Loop, files: l.files.(local)}
	for file, size := range r.Sizes() {
		if !listed(file) {
			r.size += size
		}
		r.count++
	}
	return r, nil
}

// Close closes the log.
func (r *Received) Close() { _ = r.files.Close() }

// Size is the size of a file; 0 if there is none.
func (r *Received) Size(file string) int64 { return r.files.Size(file) }

// Sizes returns the sizes of the files that grow.
func (r *Received) Sizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, file := range names(r.files.root) {
		if fileName().MatchString(file) {
			sizes[file] = r.Size(file)
		}
	}
	return sizes
}

// Append writes the part of a file at an offset. What the file has is skipped; a gap is an error.
func (r *Received) Append(file string, offset int64, p []byte) error {
	if err := r.append(file, offset, p); err != nil {
		return fmt.Errorf("receiving the log %q: %w", file, err)
	}
	return nil
}

func (r *Received) append(file string, offset int64, p []byte) error {
	if !fileName().MatchString(file) {
		return errors.New("invalid name")
	}
	size := r.Size(file)
	switch {
	case offset < 0 || offset > size:
		return fmt.Errorf("offset %d is not in or at the end of %d bytes", offset, size)
	case offset+int64(len(p)) <= size && (size > 0 || len(p) > 0):
		return nil
	}
	more := p[size-offset:]
	if err := r.admit(file, int64(len(more)), size+int64(len(more)) > maxFile); err != nil {
		return err
	}
	if err := r.files.Append(file, more); err != nil {
		return err
	}
	if file == eventsFile {
		events := ParseEvents(p, offset) // also one of which the file had a part
		r.Events = append(r.Events, slices.DeleteFunc(events, func(e Event) bool { return e.Next <= size })...)
	}
	if !listed(file) {
		r.size += int64(len(more))
	}
	return nil
}

// Replace replaces a file with the state of the loop atomically.
func (r *Received) Replace(file string, content []byte) error {
	if err := r.replace(file, content); err != nil {
		return fmt.Errorf("receiving the log %q: %w", file, err)
	}
	return nil
}

func (r *Received) replace(file string, content []byte) error {
	if file != loopFile && file != nowFile {
		return errors.New("invalid name")
	}
	if file == loopFile {
		if loop, err := parseLoop(content); err != nil || loop.Dispatch != r.Loop.Dispatch {
			return errors.New("state of another loop")
		}
	}
	if err := r.admit(file, 0, len(content) > maxState); err != nil {
		return err
	}
	return r.files.Replace(file, content)
}

// listed reports whether a file has the events or the runs of a loop.
func listed(file string) bool { return file == eventsFile || file == iterationsFile }

// admit counts a new file, and refuses what exceeds a bound.
func (r *Received) admit(file string, more int64, tooLong bool) error {
	_, err := r.files.root.Lstat(file)
	isNew := err != nil
	if tooLong || !listed(file) && r.size+more > maxLoop || isNew && r.count >= maxReceived {
		return errors.New("too long")
	}
	if isNew {
		r.count++
	}
	return nil
}
