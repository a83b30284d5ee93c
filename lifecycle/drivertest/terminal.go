package drivertest

import (
	"io"
	"os"
	"sync"

	"github.com/creack/pty"
	"github.com/moby/term"
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
func newTerminal(t T, height, width uint, out io.Writer) *terminal {
	t.Helper()
	user, end, err := pty.Open()
	noError(t, err)
	term := &terminal{user: user, end: end, resized: make(chan struct{}, 1)}
	noError(t, term.setSize(height, width))
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
func (t *terminal) state(c T) any {
	c.Helper()
	state, err := term.SaveState(t.end.Fd())
	noError(c, err)
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
