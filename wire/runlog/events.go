package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	eventsFile = "events.jsonl"
	// maxEvents bounds the size of an event log, in bytes.
	maxEvents = 64 << 20
	// maxEventRead bounds one read of an event log, in bytes.
	maxEventRead = 1 << 20
)

// Emit appends an event.
func (l *Log) Emit(data Data) error {
	if err := l.emit(Event{Time: time.Now().UTC(), Data: data}); err != nil {
		return fmt.Errorf("logging the event %s: %w", data.Type(), err)
	}
	return nil
}

func (l *Log) emit(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if l.files.Size(eventsFile)+int64(len(line)) >= maxEvents {
		return nil
	}
	return l.files.Append(eventsFile, append(line, '\n'))
}

// Events returns the next events from an offset on, and the offset after them. The
// first offset is 0. There are no more events for now if the offset did not change.
// Lines that are not events are skipped.
func (r *Reader) Events(offset int64) (events []Event, next int64, err error) {
	b, next, err := r.readEvents(offset)
	if err != nil {
		return nil, offset, fmt.Errorf("reading the events of loop %s: %w", r.Loop.ID, err)
	}
	return ParseEvents(b, offset), next, nil
}

// ParseEvents parses the lines of an event log from an offset on. Lines that are not events are skipped.
func ParseEvents(lines []byte, offset int64) (events []Event) {
	for line := range bytes.Lines(lines) {
		offset += int64(len(line))
		e := Event{Next: offset}
		if unmarshal(line, &e) == nil {
			events = append(events, e)
		}
	}
	return events
}

// EventsWithin returns the offset from which the events of a log have at most size bytes, and whether
// there are earlier ones. The line at the offset can be incomplete.
func (r *Reader) EventsWithin(size int64) (offset int64, cut bool) {
	f, err := OpenFile(r.dir, eventsFile)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	offset = max(0, min(info.Size(), maxEvents)-size)
	return offset, offset > 0
}

// readEvents reads complete lines.
func (r *Reader) readEvents(offset int64) (lines []byte, next int64, err error) {
	f, err := OpenFile(r.dir, eventsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, offset, nil // before the first event
	}
	if err != nil {
		return nil, offset, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, offset, err
	}
	if info.Size() < offset { // truncated
		return nil, info.Size(), nil
	}
	b := make([]byte, min(maxEventRead, max(0, maxEvents-offset)))
	n, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, offset, err
	}
	end := bytes.LastIndexByte(b[:n], '\n') + 1
	if end == 0 && n == maxEventRead { // not an event
		return nil, offset + int64(n), nil
	}
	return b[:end], offset + int64(end), nil
}

// unmarshal parses JSON that is not trusted, without control sequences in its strings.
func unmarshal(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return err
	}
	safe, err := json.Marshal(strip(tree))
	if err != nil {
		return err
	}
	return json.Unmarshal(safe, v)
}

func strip(tree any) any {
	switch v := tree.(type) {
	case string:
		return termsafe.Strip(v)
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = strip(v[key])
		}
	}
	return tree
}

// CommitsOf returns the commits between which a run has worked, as the log says: not trusted, and
// empty without commits.
func CommitsOf(events []Event, run int) (base, head string) {
	start := ""
	for _, e := range events {
		switch d := e.Data.(type) {
		case *RunStart:
			if d.N == run {
				start = d.Commit
			}
		case *RunEnd:
			if d.N == run && d.Commit != "" {
				base, head = start, d.Commit
				if base == "" && d.Commits > 0 {
					base = d.Commit + "~" + strconv.Itoa(d.Commits)
				}
			}
		}
	}
	return base, head
}
