// Package output collects the output of programs under test.
package output

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/poll"
)

// Buffer collects output that is read while it is being written.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the output so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Contains reports whether text was written.
func (b *Buffer) Contains(text string) bool { return strings.Contains(b.String(), text) }

// WaitFor waits until text was written.
func (b *Buffer) WaitFor(t testing.TB, text string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if b.Contains(text) {
			return poll.Success()
		}
		return poll.Continue("no %q in %q", text, b.String())
	}, poll.WithTimeout(3*time.Minute), poll.WithDelay(10*time.Millisecond))
}
