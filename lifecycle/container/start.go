package container

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// errStarted is the error for a process that an earlier call has started, without a response.
var errStarted = fmt.Errorf("it was started before the connection was lost: %w", io.ErrUnexpectedEOF)

// start starts the process of an ID, and connects to it. An engine starts an exec once: after a start
// without a response, the next call for the same process uses the same exec.
func (d *Driver) start(ctx context.Context, sb lifecycle.Sandbox, id string, opts client.ExecCreateOptions) (execID string, conn client.ExecAttachResult, err error) {
	if execID, err = d.unanswered(ctx, sb, id); err != nil {
		return "", conn, err
	}
	if execID == "" {
		made, err := d.API.ExecCreate(ctx, sb.ID, opts)
		if err != nil {
			return "", conn, &lifecycle.NotStartedError{Err: err}
		}
		execID = made.ID
	}
	conn, err = engine.Attach(ctx, d.API, execID, client.ExecAttachOptions{TTY: opts.TTY, ConsoleSize: opts.ConsoleSize})
	if unknown := err != nil && (engine.ConnectionLost(err) || ctx.Err() != nil); unknown {
		d.cached.mu.Lock()
		if d.cached.starting == nil {
			d.cached.starting = map[string]string{}
		}
		d.cached.starting[sb.ID+" "+id] = execID
		d.cached.mu.Unlock()
		err = &lifecycle.NotStartedError{Err: err, Unknown: true}
	}
	return execID, conn, err
}

// unanswered returns the exec of a process whose start had no response; empty for none. It is an
// errStarted if the engine has started it.
func (d *Driver) unanswered(ctx context.Context, sb lifecycle.Sandbox, id string) (execID string, err error) {
	key := sb.ID + " " + id
	d.cached.mu.Lock()
	execID = d.cached.starting[key]
	d.cached.mu.Unlock()
	if execID == "" {
		return "", nil
	}
	res, err := d.API.ExecInspect(ctx, execID, client.ExecInspectOptions{})
	switch {
	case errdefs.IsNotFound(err): // the container was restarted
		execID, err = "", nil
	case err != nil:
		return "", &lifecycle.NotStartedError{Err: err, Unknown: true}
	case res.Running || res.PID != 0 || res.ExitCode != 0:
		err = errStarted
	}
	d.cached.mu.Lock()
	delete(d.cached.starting, key)
	d.cached.mu.Unlock()
	return execID, err
}
