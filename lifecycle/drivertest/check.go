package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// T is what the suite needs of what runs it: a test of the go command, or a
// user's self-test.
type T interface {
	// Context ends when the check has to stop.
	Context() context.Context
	// Name is the path of the check, with slashes.
	Name() string
	// Fatalf ends the check as failed.
	Fatalf(format string, args ...any)
	// Cleanup calls f when the check is over, the last one first.
	Cleanup(f func())
	// Run runs a part of the check.
	Run(name string, f func(T)) bool
	// Helper marks a function whose lines say nothing.
	Helper()
}

// noError ends the check if there is an error.
func noError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// equal ends the check unless both values are the same.
func equal(t T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: it is %+v, and should be %+v", what, got, want)
	}
}

// holds ends the check unless something is true.
func holds(t T, what string, ok bool) {
	t.Helper()
	if !ok {
		t.Fatalf("%s: it is not so", what)
	}
}

// patience is how long something may take to come about.
const patience = 30 * time.Second

// becomes waits until look says yes; until then it says what it sees.
func becomes(t T, what string, look func() (sees string, yes bool)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		sees, yes := look()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it is not so after %s, but: %s", what, patience, sees)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
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

func (b *buffer) waitFor(t T, text string) {
	t.Helper()
	becomes(t, fmt.Sprintf("the output has %q", text), func() (string, bool) {
		out := b.String()
		return fmt.Sprintf("%q", out), strings.Contains(out, text)
	})
}
