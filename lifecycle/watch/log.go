package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Log is the open log of a loop.
type Log struct{ *runlog.Reader }

// Open opens the log of a loop of the branch.
func (w Worktree) Open(l Loop) (Log, error) {
	r, err := runlog.Find(w.Logs, func(found runlog.Loop) bool { return found.ID == l.ID })
	if errors.Is(err, fs.ErrNotExist) {
		return Log{}, ErrNotFound
	}
	if err != nil {
		return Log{}, fmt.Errorf("reading the log of loop %s: %w", l.ID, err)
	}
	return Log{r}, nil
}

// NewestEvents returns the newest events, which have up to size bytes in the log, and whether there are
// earlier ones.
func (l Log) NewestEvents(size int64) (newest []runlog.Event, cut bool, err error) {
	offset, cut := l.EventsWithin(size)
	for end := offset + size; offset < end; {
		events, next, err := l.Events(offset)
		if err != nil || next == offset {
			return newest, cut, err
		}
		newest, offset = append(newest, events...), next
	}
	return newest, cut, nil
}

// Runs returns the runs of events, the newest first, and 0 for what was before the first one.
func Runs(events []runlog.Event) []int {
	runs := []int{0}
	for _, e := range events {
		switch d := e.Data.(type) {
		case *runlog.RunStart:
			runs = append(runs, d.N)
		case *runlog.RunEnd:
			runs = append(runs, d.N)
		}
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	slices.Reverse(runs)
	return runs
}

// Output is the position in the rendered output of a run.
type Output struct {
	run    int
	offset int64
	strip  termsafe.Stripper
}

// OutputOf returns the beginning of the output of run n.
func OutputOf(n int) *Output { return &Output{run: n} }

// Next returns new output without control sequences: at most its last limit bytes, from the start
// of a line. A run without output has none.
func (o *Output) Next(l Log, limit int) (text string, skipped bool, err error) {
	start := l.Last(runlog.Rendered, o.run, o.offset, int64(limit))
	tail := &tail{limit: limit, skipped: start > o.offset}
	o.offset = start
	o.offset, err = l.CopyRun(tail, runlog.Rendered, o.run, o.offset)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if tail.skipped {
		if _, rest, found := bytes.Cut(tail.kept, []byte("\n")); found {
			tail.kept = rest
		}
		o.strip = termsafe.Stripper{}
	}
	return o.strip.Strip(tail.kept), tail.skipped, nil
}

// tail keeps the last bytes that are written to it.
type tail struct {
	kept    []byte
	limit   int
	skipped bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - t.limit; extra > 0 {
		t.kept, t.skipped = append(t.kept[:0], t.kept[extra:]...), true
	}
	return len(p), nil
}

// Match is a line of the output of a run.
type Match struct {
	Run  int    `json:"run"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// maxSearch bounds how much output is searched, in bytes.
const maxSearch = 256 << 20

// Search returns up to limit lines that contain a text, regardless of case, in the output of runs, as far
// as it is searched.
func (l Log) Search(ctx context.Context, text string, runs []int, limit int) (found []Match, err error) {
	text = strings.ToLower(text)
	left := int64(maxSearch)
	for _, n := range runs {
		if len(found) == limit || left <= 0 || ctx.Err() != nil {
			break
		}
		s := &lineSearch{run: n, text: text, limit: limit - len(found)}
		read, err := l.CopyRun(s, runlog.Rendered, n, 0)
		left -= read
		s.end()
		if found = append(found, s.found...); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.ErrShortWrite) {
			return found, err
		}
	}
	return found, nil
}

// maxLine bounds a line of output that is searched, in bytes.
const maxLine = 64 << 10

// lineSearch searches the lines that are written to it.
type lineSearch struct {
	run, line, limit int
	text             string
	rest             []byte
	found            []Match
}

func (s *lineSearch) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	left := s.rest
	for len(s.found) < s.limit {
		line, rest, complete := bytes.Cut(left, []byte("\n"))
		if !complete {
			s.rest = append(s.rest[:0], left[:min(len(left), maxLine)]...)
			return len(p), nil
		}
		s.match(line)
		left = rest
	}
	return 0, io.ErrShortWrite
}

func (s *lineSearch) match(line []byte) {
	s.line++
	if text := termsafe.Line(string(line)); strings.Contains(strings.ToLower(text), s.text) {
		s.found = append(s.found, Match{s.run, s.line, text})
	}
}

func (s *lineSearch) end() {
	if len(s.rest) > 0 && len(s.found) < s.limit {
		s.match(s.rest)
	}
}
