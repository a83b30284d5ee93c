package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
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
	if err := l.openEvents(); err != nil {
		return err
	}
	info, err := l.events.Stat()
	if err != nil || info.Size()+int64(len(line)) >= maxEvents {
		return err
	}
	return appendLine(l.events, append(line, '\n'))
}

// openEvents opens the event log. It stays open: an agent can replace it by a file that
// blocks.
func (l *Log) openEvents() (err error) {
	if l.events != nil {
		return nil
	}
	l.events, err = l.root.OpenFile(l.name(eventsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	return l.holdFile(l.name(eventsFile))
}

func (l *Log) closeEvents() error {
	if l.events == nil {
		return nil
	}
	err := l.events.Close()
	l.events = nil
	return err
}

// Events returns the next events from an offset on, and the offset after them. The
// first offset is 0. There are no more events for now if the offset did not change.
// Lines that are not events are skipped.
func (r *Reader) Events(offset int64) (events []Event, next int64, err error) {
	b, next, err := r.readEvents(offset)
	if err != nil {
		return nil, offset, fmt.Errorf("reading the events of loop %s: %w", r.Loop.ID, err)
	}
	for line := range bytes.Lines(b) {
		offset += int64(len(line))
		e := Event{Next: offset}
		if unmarshal(line, &e) == nil {
			events = append(events, e)
		}
	}
	return events, next, nil
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
	if info.Size() < offset { // truncated by an agent
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

// unmarshal parses JSON that an agent can have written, without control sequences in
// its strings.
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
