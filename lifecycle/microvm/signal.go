package microvm

import (
	"context"
	"errors"
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
