package container

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// errStarted is the error for a process that an earlier call has started, without a response.
var errStarted = fmt.Errorf("already started when the connection was lost: %w", io.ErrUnexpectedEOF)

// execKey identifies a process in a container.
type execKey struct{ container, process string }

// startedExec is an exec that this program has started, or may have started.
type startedExec struct {
	id         string
	unanswered bool // its start had no response
}

// start starts the process of an ID, and connects to it. An engine starts an exec once: after a start
// without a response, the next call for the same process uses the same exec.
func (d *Driver) start(ctx context.Context, sb lifecycle.Sandbox, id string, opts client.ExecCreateOptions) (execID string, conn client.ExecAttachResult, err error) {
	key := execKey{sb.ID, id}
	if execID, err = d.unanswered(ctx, key); err != nil {
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
	unknown := err != nil && (engine.ConnectionLost(err) || ctx.Err() != nil)
	if service := (lifecycle.Dispatch{ID: id}).Service(); !service && (err == nil || unknown) {
		d.cached.execs.Store(key, startedExec{execID, unknown})
	}
	if unknown {
		err = &lifecycle.NotStartedError{Err: err, Unknown: true}
	}
	return execID, conn, err
}

// unanswered returns the exec of a process whose start had no response; empty for none. It is an
// errStarted if the engine has started it.
func (d *Driver) unanswered(ctx context.Context, key execKey) (execID string, err error) {
	found, _ := d.cached.execs.Load(key)
	exec, _ := found.(startedExec)
	if !exec.unanswered {
		return "", nil
	}
	res, err := d.API.ExecInspect(ctx, exec.id, client.ExecInspectOptions{})
	switch {
	case errdefs.IsNotFound(err): // the container was restarted
		return "", nil
	case err != nil:
		return "", &lifecycle.NotStartedError{Err: err, Unknown: true}
	case res.Running || res.PID != 0 || res.ExitCode != 0:
		d.cached.execs.Store(key, startedExec{id: exec.id})
		return "", errStarted
	}
	return exec.id, nil
}

// begun returns those processes of this program that the engine has begun to start in a sandbox, and
// that are not listed yet: a busy engine can take seconds.
func (d *Driver) begun(ctx context.Context, sb lifecycle.Sandbox, listed []lifecycle.Dispatch) (more []lifecycle.Dispatch, err error) {
	d.cached.execs.Range(func(key, exec any) bool {
		id := key.(execKey).process
		if key.(execKey).container != sb.ID || slices.ContainsFunc(listed, func(l lifecycle.Dispatch) bool { return l.ID == id }) {
			return true
		}
		res, inspectErr := d.API.ExecInspect(ctx, exec.(startedExec).id, client.ExecInspectOptions{})
		switch {
		case errdefs.IsNotFound(inspectErr):
		case inspectErr != nil:
			err = inspectErr
		case res.Running:
			more = append(more, lifecycle.Dispatch{ID: id})
		}
		return err == nil
	})
	return more, err
}
