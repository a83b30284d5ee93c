package loop

import (
	"fmt"
	"io"
	"sync"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// syncWriter is standard output for the loop and the renderer. After the
// first error nothing more is written.
type syncWriter struct {
	mu      sync.Mutex
	w       io.Writer
	failed  error
	ended   chan struct{}
	midLine bool // the last byte was no newline
}

func newSyncWriter(w io.Writer) *syncWriter { return &syncWriter{w: w, ended: make(chan struct{})} }

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return 0, s.failed
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.w.Write(p)
	if err != nil {
		s.failed = err
		close(s.ended)
	}
	s.midLine = p[len(p)-1] != '\n'
	return n, err
}

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
