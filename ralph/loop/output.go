package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// ErrUnread is returned by a loop that was stopped while its output was blocked.
var ErrUnread = errors.New("output was closed")

// writeGrace is how long a write may block before the loop gives up or moves on.
const writeGrace = time.Second

// syncWriter is an output of the loop and the renderer. It stops at the first error.
type syncWriter struct {
	mu      sync.Mutex
	w       io.Writer
	failed  error
	ended   chan struct{}
	abort   chan struct{} // closed by abandon
	once    sync.Once
	midLine bool // the last byte was no newline
}

func newSyncWriter(w io.Writer) *syncWriter {
	return &syncWriter{w: w, ended: make(chan struct{}), abort: make(chan struct{})}
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return 0, s.failed
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.write(p)
	if err != nil {
		s.failed = err
		close(s.ended)
	}
	s.midLine = p[len(p)-1] != '\n'
	return n, err
}

// write writes in the background: an open pipe without a reader blocks forever.
func (s *syncWriter) write(p []byte) (n int, err error) {
	p = bytes.Clone(p) // it may outlive this call
	done := make(chan struct{})
	var written int
	var failed error
	go func() {
		defer close(done)
		written, failed = s.w.Write(p)
	}()
	select {
	case <-done:
		return written, failed
	case <-s.abort:
	}
	select {
	case <-done:
		return written, failed
	case <-time.After(writeGrace):
		return 0, ErrUnread
	}
}

// abandon aborts blocked writes.
func (s *syncWriter) abandon() { s.once.Do(func() { close(s.abort) }) }

// freshLine ends an incomplete line.
func (s *syncWriter) freshLine() {
	s.mu.Lock()
	midLine := s.midLine
	s.mu.Unlock()
	if midLine {
		_, _ = s.Write([]byte("\n"))
	}
}

// broken is closed after the first error.
func (s *syncWriter) broken() <-chan struct{} { return s.ended }

func (s *syncWriter) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		return nil
	}
	return fmt.Errorf("writing the output: %w", s.failed)
}

// writeAsync writes a string and then closes the channel.
func (s *syncWriter) writeAsync(text string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(s, text)
	}()
	return done
}

// print prints a string. A signal aborts a blocked write.
func (l *loop) print(to *syncWriter, text string) {
	done := to.writeAsync(text)
	select {
	case <-done:
		return
	case <-time.After(writeGrace):
	}
	select {
	case <-done:
	case <-l.Signals:
		l.interruptOutput()
		<-done
	}
}

// interruptOutput handles a signal during a blocked write.
func (l *loop) interruptOutput() {
	l.interrupted = true
	l.abandonOutput()
}

// abandonOutput keeps a blocked output from delaying the end of the loop.
func (l *loop) abandonOutput() {
	l.out.abandon()
	l.errs.abandon()
	if l.live != nil {
		l.live.abandon()
	}
}

// printLive prints a string at the terminal only.
func (l *loop) printLive(text string) {
	if l.live != nil && text != "" {
		l.print(l.live, text)
	}
}

// freshLine ends an incomplete line of the agent.
func (l *loop) freshLine() {
	l.plain.freshLine()
	if l.Screen != nil {
		l.printLive(l.Screen.FreshLine())
	}
}

// printReceipt prints the line of a run.
func (l *loop) printReceipt(it runlog.Iteration) {
	text := line(it)
	l.print(l.plain, text+"\n")
	if l.Screen == nil {
		return
	}
	switch {
	case it.Outcome == outcomeDone, it.Outcome == outcomeEnded:
		l.printLive(l.Screen.Outcome(text, true, false))
	case failedOutcome(it.Outcome), it.Outcome == outcomeReleased:
		l.printLive(l.Screen.Outcome(text, false, true))
	default:
		l.printLive(l.Screen.Outcome(text, false, false))
	}
}

// showAgent shows the agent's events.
func (l *loop) showAgent(events []event.Event) error {
	err := show(l.plain, events)
	if l.live != nil {
		if _, err = io.WriteString(l.live, l.Screen.Render(events)); err != nil {
			err = fmt.Errorf("writing the agent's output: %w", err)
		}
	}
	return err
}

// maxTail bounds the tail, in bytes.
const maxTail = 8 << 10

// tail is the end of an agent's output.
type tail []byte

func (t *tail) add(p []byte) {
	const most = maxTail + 1 // to see that something is missing
	p = p[max(0, len(p)-most):]
	if over := len(*t) + len(p) - most; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	*t = append(*t, p...)
}

// show renders events to w.
func show(w io.Writer, events []event.Event) error {
	for _, e := range events {
		if text := event.Render(e); text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return fmt.Errorf("writing the agent's output: %w", err)
			}
		}
	}
	return nil
}
