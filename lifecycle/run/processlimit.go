package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// errNotStarted says that there was no room in the sandbox for a command's process.
var errNotStarted = errors.New("no process can be started")

// attempted is what an attempt to run a command has come to, beside its result.
type attempted struct {
	started bool          // the command, as far as is known
	input   *guardedInput // nil without input
}

// restartFull restarts a sandbox that has reached its process limit, if that is why a
// command has not been started, and nothing else works in it. The error replaces
// the command's.
func (h session) restartFull(ctx context.Context, driver lifecycle.Driver, name, id string, tried *attempted, err error) (again bool, _ error) {
	d, ok := driver.(*container.Driver)
	if !ok || err == nil || tried.started || ctx.Err() != nil {
		return false, err
	}
	sb, lookErr := d.Lookup(ctx, name)
	if lookErr != nil || sb.State != lifecycle.Running {
		return false, err
	}
	limit := processLimit(ctx, d, sb)
	if limit == 0 {
		return false, err
	}
	full := fmt.Sprintf("sandbox %s has reached its process limit (%d)", sb.Name, limit)
	if busy, busyErr := h.othersIn(ctx, d, sb, id); busyErr != nil || busy {
		err := errors.Join(fmt.Errorf("%s, and another command is running in it", full), busyErr)
		return false, hint.Wrap(err, "wait for it, or end it with %q", "docker ralph stop --now "+sb.Name)
	}
	h.Report(strings.ToUpper(full[:1]) + full[1:] + ": restarting it")
	if err := d.Stop(ctx, sb); err != nil {
		return false, err
	}
	if errors.Is(err, errNotStarted) && !tried.input.end() {
		return false, hint.Wrap(fmt.Errorf("%s, and was restarted", full), "run the command again")
	}
	return true, nil
}

// processLimit returns the process limit that a sandbox has reached; 0 if it has not,
// or nothing is known of it.
func processLimit(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) uint64 {
	d, ok := driver.(*container.Driver)
	if !ok {
		return 0
	}
	limit, err := d.ProcessLimit(ctx, sb)
	if err != nil {
		return 0
	}
	return limit
}

// othersIn reports whether a command other than the dispatch runs in a sandbox.
func (h session) othersIn(ctx context.Context, d *container.Driver, sb lifecycle.Sandbox, id string) (bool, error) {
	all, err := h.RecordsOf(sb.Name)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(all, func(n host.Record) bool { return n.Live && n.Sandbox == sb.Name && n.ID != id }) {
		return true, nil
	}
	return d.Working(ctx, sb)
}

// guardedInput is a command's input, of which nothing may be lost to an attempt that fails.
type guardedInput struct {
	io.Reader
	mu           sync.Mutex
	taken, ended bool
}

func (l *guardedInput) Read(p []byte) (int, error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return 0, io.EOF
	}
	first := !l.taken
	l.taken = true
	l.mu.Unlock()
	n, err := l.Reader.Read(p)
	if first && n == 0 && errors.Is(err, io.EOF) { // there is none
		l.mu.Lock()
		l.taken = false
		l.mu.Unlock()
	}
	return n, err
}

// end ends the input for this attempt, and says whether the next one finds all of it.
func (l *guardedInput) end() (whole bool) {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return !l.taken
}
