// Package screen shows a loop at a terminal: a stream of text that scrolls, and below it
// a line with the loop's state.
//
// It uses only sequences that the host lets pass to the user's terminal (see package
// termsafe): colors, and those that erase from the cursor on.
package screen

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// minWidth is the width from which on there is a status line, in columns.
const minWidth = 20

// refresh is the interval of updates of the status line.
const refresh = time.Second

// partialTimeout is how long the end of a line is awaited before it is shown.
const partialTimeout = 2 * time.Second

// Screen is a terminal with a status line. It is safe for concurrent use.
type Screen struct {
	out   io.Writer
	width func() int // in columns; 0 if unknown
	color bool
	done  chan struct{}

	state state // not locked while the terminal blocks

	mu      sync.Mutex
	closed  bool
	mode    string
	now     runlog.Now // as drawn
	partial []byte     // incomplete line
	written time.Time  // of the partial line
	drawn   bool       // the status line; the cursor is at its start
}

// state is what the status line shows.
type state struct {
	sync.Mutex
	next  runlog.Now
	tools tools
}

// New returns the screen of a loop at the terminal tty, or nil if it is none that can
// erase a line. It writes to out.
func New(tty *os.File, out io.Writer, mode string, getenv func(string) string) *Screen {
	if !term.IsTerminal(tty.Fd()) || getenv("TERM") == "dumb" {
		return nil
	}
	s := &Screen{out: out, mode: mode, color: getenv("NO_COLOR") == "", done: make(chan struct{})}
	s.width = func() int {
		size, err := term.GetWinsize(tty.Fd())
		if err != nil {
			return 0
		}
		return int(size.Width)
	}
	go s.update()
	return s
}

// update keeps the times in the status line and its width current.
func (s *Screen) update() {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-resized:
		case <-tick.C:
		}
		s.endPartialLine()
		_, _ = s.Write(nil) // the next write of text returns the error
	}
}

// endPartialLine shows a line whose end does not come, such as the last one of a message.
func (s *Screen) endPartialLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) > 0 && time.Since(s.written) >= partialTimeout {
		s.state.Lock()
		s.state.tools.midLine = false
		s.state.Unlock()
		_ = s.write("\n")
	}
}

// Close removes the status line. Text is still written afterwards.
func (s *Screen) Close() {
	if s == nil {
		return
	}
	closed := make(chan struct{})
	go func() { // a blocked terminal must not delay the end of the loop
		defer close(closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.closed = true
			close(s.done)
			_ = s.write(s.FreshLine())
		}
	}()
	select {
	case <-closed:
	case <-time.After(refresh):
	}
}

// SetNow sets the state that the status line shows.
func (s *Screen) SetNow(now runlog.Now) {
	if s == nil {
		return
	}
	s.state.Lock()
	defer s.state.Unlock()
	s.state.next = now
}

func (s *Screen) latest() runlog.Now {
	s.state.Lock()
	defer s.state.Unlock()
	return s.state.next
}

// Write writes text above the status line, line by line.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// write writes the complete lines and draws the status line again.
func (s *Screen) write(text string) error {
	s.partial = append(s.partial, text...)
	if text != "" {
		s.written = time.Now()
	}
	end := bytes.LastIndexByte(s.partial, '\n') + 1
	if s.closed {
		end = len(s.partial)
	}
	var b bytes.Buffer
	if s.drawn {
		b.WriteString(eraseBelow)
	}
	b.WriteString(s.paint().highlight(string(s.partial[:end])))
	s.partial = append(s.partial[:0], s.partial[end:]...)
	s.drawn, s.now = false, s.latest()
	if width := s.width(); !s.closed && width >= minWidth && s.now.State != "" {
		b.WriteString(s.status(width-1, time.Now()) + "\r")
		s.drawn = true
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := s.out.Write(b.Bytes())
	return err
}

// eraseBelow erases the status line from its start on, also where it has been wrapped by
// a terminal that became narrower.
const eraseBelow = "\x1b[J"

// paint returns the colors of the terminal.
func (s *Screen) paint() painter {
	width := s.width()
	if width == 0 {
		width = 80
	}
	return painter{color: s.color, width: max(width, minWidth)}
}
