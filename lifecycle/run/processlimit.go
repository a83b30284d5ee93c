package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// errNotStarted says that a command's process could not be started.
var errNotStarted = errors.New("no process can be started")

// attempted is the progress of an attempt to run a command.
type attempted struct {
	started bool          // the command may have run
	unknown bool          // its start had no response
	err     error         // of a started command, which may still run
	input   *checkedInput // nil without input
}

// restartFull restarts a sandbox if its process limit has prevented the start of a command, and
// no other command runs in it. The error replaces the command's.
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
		return false, hint.Wrap(err, "wait for it, or stop it with %q", "docker ralph stop --now "+sb.Name)
	}
	h.Report(strings.ToUpper(full[:1]) + full[1:] + ": restarting it")
	if err := d.Stop(ctx, sb); err != nil {
		return false, err
	}
	if errors.Is(err, errNotStarted) && !tried.input.whole() {
		return false, hint.Wrap(fmt.Errorf("%s, and was restarted", full), "run the command again")
	}
	return true, nil
}

// processLimit returns the process limit that a sandbox has reached; 0 for none.
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

// othersIn reports whether another command runs in a sandbox.
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

// checkedInput is a command's input that records whether another attempt can read all of it.
type checkedInput struct {
	io.Reader
	used, got atomic.Bool // it was read; it was not empty
}

func (c *checkedInput) Read(p []byte) (int, error) {
	c.used.Store(true)
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.got.Store(true)
	} else if errors.Is(err, io.EOF) {
		c.used.Store(c.got.Load()) // there is none
	}
	return n, err
}

func (c *checkedInput) whole() bool { return c == nil || !c.used.Load() }

// startFailures are prefixes of messages that an engine or Go prints instead of the output of a
// command that cannot be started.
var startFailures = []string{"OCI runtime exec failed: ", "runtime: failed to create new OS thread"}

// startFailureMax bounds such a message, in bytes.
const startFailureMax = 64 << 10

// startOutput holds back output that begins with a message of startFailures.
type startOutput struct {
	to     io.Writer
	begun  bool
	failed bool
	held   bytes.Buffer
}

// Write implements [io.Writer].
func (o *startOutput) Write(p []byte) (int, error) {
	if !o.begun {
		o.begun = true
		o.failed = slices.ContainsFunc(startFailures, func(text string) bool { return strings.HasPrefix(string(p), text) })
	}
	if !o.failed {
		return o.to.Write(p)
	}
	o.held.Write(p)
	if o.held.Len() > startFailureMax {
		return len(p), o.pass()
	}
	return len(p), nil
}

// pass writes what was held back.
func (o *startOutput) pass() error {
	o.failed = false
	_, err := o.held.WriteTo(o.to)
	return err
}
