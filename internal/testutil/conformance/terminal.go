//go:build unix

package conformance

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/moby/term"
	"gotest.tools/v3/assert"
)

// terminal is a terminal that the suite sits at instead of a user.
type terminal struct {
	user *os.File // the end with the keyboard and the screen
	end  *os.File // the end that programs get

	mu            sync.Mutex
	height, width uint
	resized       chan struct{}
}

// newTerminal makes a terminal of that size whose screen is shown to out.
func newTerminal(t *testing.T, height, width uint, out io.Writer) *terminal {
	t.Helper()
	user, end, err := pty.Open()
	assert.NilError(t, err)
	term := &terminal{user: user, end: end, resized: make(chan struct{}, 1)}
	assert.NilError(t, term.setSize(height, width))
	go func() { _, _ = io.Copy(out, user) }() // ends when the terminal is closed
	t.Cleanup(func() {
		// Whoever still reads the terminal is let go of it.
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

// state is how the terminal is set up, to be compared.
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

// buffer collects output that is read while it is being written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *buffer) waitFor(t *testing.T, text string) {
	t.Helper()
	becomes(t, fmt.Sprintf("the output has %q", text), func() (string, bool) {
		out := b.String()
		return fmt.Sprintf("%q", out), strings.Contains(out, text)
	})
}
