package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

// ErrUnread is the error of a loop that was asked to end while its output could
// not be written.
var ErrUnread = errors.New("output was closed")

// writeGrace is how long a write may take when a signal has come, and how long the
// loop waits for one while it has other things to attend to.
const writeGrace = time.Second

// syncWriter is an output of the loop and the renderer. After the first error
// nothing more is written.
type syncWriter struct {
	mu      sync.Mutex
	w       io.Writer
	failed  error
	ended   chan struct{}
	hurry   chan struct{} // closed by hurryUp
	once    sync.Once
	midLine bool // the last byte was no newline
}

func newSyncWriter(w io.Writer) *syncWriter {
	return &syncWriter{w: w, ended: make(chan struct{}), hurry: make(chan struct{})}
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

// write waits in the background: a pipe that is open but not read keeps a writer
// for ever.
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
	case <-s.hurry:
	}
	select {
	case <-done:
		return written, failed
	case <-time.After(writeGrace):
		return 0, ErrUnread
	}
}

// hurryUp ends writes that cannot be completed.
func (s *syncWriter) hurryUp() { s.once.Do(func() { close(s.hurry) }) }

// freshLine ends a line that has begun.
func (s *syncWriter) freshLine() {
	s.mu.Lock()
	midLine := s.midLine
	s.mu.Unlock()
	if midLine {
		_, _ = s.Write([]byte("\n"))
	}
}

// broken is closed when nobody reads the output any more.
func (s *syncWriter) broken() <-chan struct{} { return s.ended }

func (s *syncWriter) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		return nil
	}
	return fmt.Errorf("writing the output: %w", s.failed)
}

// begin begins to print a text, and closes the channel when that is done.
func (s *syncWriter) begin(text string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(s, text)
	}()
	return done
}

// print prints a text. A signal that comes while that takes long ends the output.
func (l *loop) print(to *syncWriter, text string) {
	done := to.begin(text)
	select {
	case <-done:
		return
	case <-time.After(writeGrace):
	}
	select {
	case <-done:
	case <-l.Signals:
		l.giveUpOutput()
		<-done
	}
}

// giveUpOutput is the answer to a signal that comes while an output is not read.
func (l *loop) giveUpOutput() {
	l.interrupted = true
	l.hurryOutput()
}

// hurryOutput keeps an output that nobody reads from holding up the loop's end.
func (l *loop) hurryOutput() {
	l.out.hurryUp()
	l.errs.hurryUp()
}

// keptTail is how much of what an agent said last is looked at, in bytes.
const keptTail = 8 << 10

// tail is the end of what an agent printed.
type tail []byte

func (t *tail) add(p []byte) {
	if len(p) > keptTail {
		p = p[len(p)-keptTail:]
	}
	if over := len(*t) + len(p) - keptTail; over > 0 {
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
