package microvm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// limitSignal is the timeout for the delivery of a signal.
const limitSignal = 10 * time.Second

// forwardSignals delivers signals to the process: a client that receives one only
// disconnects. Failures are sent to undelivered.
func (d *Driver) forwardSignals(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process, undelivered chan<- error) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-p.Signals:
			name := "INT"
			if sig == syscall.SIGTERM {
				name = "TERM"
			}
			if err := d.deliver(ctx, sb, name, p.ID); err != nil {
				undelivered <- err
				return
			}
		}
	}
}

// deliver signals the process, even if it is still starting.
func (d *Driver) deliver(ctx context.Context, sb lifecycle.Sandbox, name, id string) error {
	rec, ok := d.ready(sb)
	if !ok {
		return lifecycle.ErrNotPrepared
	}
	deadline := time.Now().Add(d.scaled(limitSignal))
	for {
		_, err := d.inside(ctx, sb.Name, limitSignal, d.guestFolder().path(rec.Prepared), "_signal", name, id)
		c, failed := errors.AsType[*callError](err)
		if err == nil || ctx.Err() != nil {
			return nil // it has ended meanwhile
		}
		if !failed || c.limit > 0 || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// dispatched asks ralph in the sandbox for the state of a process.
func (d *Driver) dispatched(ctx context.Context, sb lifecycle.Sandbox, rec record, id string) (state string, err error) {
	out, err := d.inside(ctx, sb.Name, limitExec, d.guestFolder().path(rec.Prepared), "_dispatched", id)
	if c, ok := errors.AsType[*callError](err); ok && c.code == 127 {
		return "", errors.Join(lifecycle.ErrNotPrepared, d.recordPrepared(ctx, sb, "")) // it is not there at all
	}
	if err != nil {
		return "", err
	}
	var said struct {
		State string `json:"state"`
	}
	if err := decode(out, &said); err != nil {
		return "", fmt.Errorf("parsing the output of ralph: %w", err)
	}
	return said.State, nil
}
