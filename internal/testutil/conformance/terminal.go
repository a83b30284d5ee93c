//go:build unix

package conformance

import (
	"io"
	"os"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/moby/term"
	"gotest.tools/v3/assert"
)

// terminal is the terminal of the suite.
type terminal struct {
	user *os.File // the end with the keyboard and the screen
	end  *os.File // the end that programs get

	mu            sync.Mutex
	height, width uint
	resized       chan struct{}
}

// newTerminal creates a terminal of that size, and copies its screen to out.
func newTerminal(t *testing.T, height, width uint, out io.Writer) *terminal {
	t.Helper()
	user, end, err := pty.Open()
	assert.NilError(t, err)
	term := &terminal{user: user, end: end, resized: make(chan struct{}, 1)}
	assert.NilError(t, term.setSize(height, width))
	go func() { _, _ = io.Copy(out, user) }() // ends when the terminal is closed
	t.Cleanup(func() {
		// Readers of the terminal are unblocked.
		_, _ = io.WriteString(user, "\n")
		_ = end.Close()
		_ = user.Close()
	})
	return term
}

func (s *terminal) setSize(height, width uint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.height, s.width = height, width
	return pty.Setsize(s.end, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
}

func (s *terminal) resize(height, width uint) error {
	err := s.setSize(height, width)
	s.resized <- struct{}{}
	return err
}

// state returns the settings of the terminal, to be compared.
func (s *terminal) state(t *testing.T) any {
	t.Helper()
	state, err := term.SaveState(s.end.Fd())
	assert.NilError(t, err)
	return *state
}

func (s *terminal) Size() (height, width uint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.height, s.width
}

func (s *terminal) Resized() <-chan struct{} { return s.resized }

func (s *terminal) Files() (stdin, stdout, stderr *os.File) { return s.end, s.end, s.end }

func (s *terminal) DetachKeys() string { return "" }

func (s *terminal) MakeRaw() (restore func(), err error) {
	state, err := term.SetRawTerminal(s.end.Fd())
	return func() { _ = term.RestoreTerminal(s.end.Fd(), state) }, err
}
