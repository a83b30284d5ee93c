package drivertest

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// terminal stands in for the user's terminal.
type terminal struct {
	mu            sync.Mutex
	height, width uint
	resized       chan struct{}
	restored      atomic.Bool
}

func newTerminal(height, width uint) *terminal {
	return &terminal{height: height, width: width, resized: make(chan struct{}, 1)}
}

func (t *terminal) Size() (height, width uint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.height, t.width
}

func (t *terminal) resize(height, width uint) {
	t.mu.Lock()
	t.height, t.width = height, width
	t.mu.Unlock()
	t.resized <- struct{}{}
}

func (t *terminal) Resized() <-chan struct{} { return t.resized }

func (t *terminal) DetachKeys() string { return "" }

func (t *terminal) MakeRaw() (restore func(), err error) {
	return func() { t.restored.Store(true) }, nil
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
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if !strings.Contains(b.String(), text) {
			return poll.Continue("no %q in %q", text, b.String())
		}
		return poll.Success()
	}, poll.WithTimeout(30*time.Second))
}

// press types keys again and again until the output shows their effect: a
// process may be between two reads, and a change of size takes its time.
func press(t *testing.T, w io.Writer, keys string, out *buffer, effect string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(out.String(), effect) {
			return poll.Success()
		}
		_, err := io.WriteString(w, keys)
		assert.NilError(t, err)
		return poll.Continue("no %q in %q", effect, out.String())
	}, poll.WithTimeout(30*time.Second), poll.WithDelay(100*time.Millisecond))
}
