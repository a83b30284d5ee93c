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

func (t *terminal) setSize(height, width uint) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.height, t.width = height, width
	return pty.Setsize(t.end, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
}

func (t *terminal) resize(height, width uint) error {
	err := t.setSize(height, width)
	t.resized <- struct{}{}
	return err
}

// state is how the terminal is set up, to be compared.
func (t *terminal) state(c *testing.T) any {
	c.Helper()
	state, err := term.SaveState(t.end.Fd())
	assert.NilError(c, err)
	return *state
}

func (t *terminal) Size() (height, width uint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.height, t.width
}

func (t *terminal) Resized() <-chan struct{} { return t.resized }

func (t *terminal) Files() (stdin, stdout, stderr *os.File) { return t.end, t.end, t.end }

func (t *terminal) DetachKeys() string { return "" }

func (t *terminal) MakeRaw() (restore func(), err error) {
	state, err := term.SetRawTerminal(t.end.Fd())
	return func() { _ = term.RestoreTerminal(t.end.Fd(), state) }, err
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
