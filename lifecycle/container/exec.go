package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Exec implements [lifecycle.Driver].
func (d *Driver) Exec(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return 0, lifecycle.ErrNotPrepared
	}
	if err := d.ensureFirewall(ctx, sb); err != nil {
		return 0, &lifecycle.NotStartedError{Err: err}
	}
	args := append([]string{program.Path(), "_exec"}, p.Args...) // for its umask
	if p.Args[0] == wire.Program {
		args = slices.Concat([]string{program.Path()}, p.Args[1:], []string{wire.DispatchMark(p.ID)})
	}
	env := []string{"HOME=" + userimage.Home, wire.DispatchEnv + "=" + p.ID, wire.InitEnv + "=1"}
	if sb.Cache != "" {
		env = append(env, cacheEnvironment(sb.User, sb.Root)...)
	}
	env = append(env, p.Env...) // may override these
	if sb.Proxy != "" {
		env = withProxyEnv(env, sb.Proxy)
	}
	opts := client.ExecCreateOptions{
		User:         sb.User,
		Env:          env,
		WorkingDir:   p.Dir,
		Cmd:          args,
		AttachStdin:  p.Stdin != nil,
		AttachStdout: true,
		AttachStderr: true,
	}
	if p.Terminal != nil {
		opts.TTY = true
		opts.DetachKeys = p.Terminal.DetachKeys()
		opts.ConsoleSize.Height, opts.ConsoleSize.Width = p.Terminal.Size()
	}
	execID, conn, err := d.start(ctx, sb, p.ID, opts)
	if err != nil {
		return 0, fmt.Errorf("running %s in sandbox %s: %w", p.Args[0], sb.Name, err)
	}
	defer conn.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.stream(ctx, execID, conn.HijackedResponse, p); err != nil {
		return 0, err
	}
	code, err := engine.ExitCode(ctx, d.API, execID)
	if err == nil {
		d.cached.execs.Delete(execKey{sb.ID, p.ID})
	}
	if err == nil && code == killed && d.endedByDeadline(ctx, sb) {
		_, _ = fmt.Fprintf(p.Stderr, "Error: sandbox %s was stopped: a run exceeded its time limit and could not be killed\n", sb.Name)
		code = exitTimeUp
	}
	return code, err
}

const (
	// killed is the exit code after SIGKILL, and of all processes of a stopped sandbox.
	killed = 128 + 9
	// exitTimeUp is the exit code of PID 1 when it ends the sandbox for a time limit.
	exitTimeUp = wire.ExitDeadline
)

// endedByDeadline reports whether PID 1 has ended a sandbox because of a time limit. The
// engine reports that a moment after the end of processes in it.
func (d *Driver) endedByDeadline(ctx context.Context, sb lifecycle.Sandbox) bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
		if err != nil || res.Container.State == nil {
			return false
		}
		if state := res.Container.State; !state.Running {
			return state.ExitCode == exitTimeUp
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// stream copies input and output until the process exits or the user detaches.
func (d *Driver) stream(ctx context.Context, execID string, conn client.HijackedResponse, p lifecycle.Process) error {
	stdin := p.Stdin
	if p.Terminal != nil {
		restore, err := p.Terminal.MakeRaw()
		if err != nil {
			return fmt.Errorf("setting up the terminal: %w", err)
		}
		defer restore()
		if stdin, err = detachable(p.Stdin, p.Terminal.DetachKeys()); err != nil {
			return err
		}
		go d.followSize(ctx, execID, p.Terminal)
	}
	output := make(chan error, 1)
	go func() {
		if p.Terminal != nil {
			_, err := io.Copy(p.Stdout, conn.Reader)
			output <- err
			return
		}
		output <- engine.Demultiplex(p.Stdout, p.Stderr, conn.Reader)
	}()
	detached := make(chan struct{})
	if stdin != nil {
		go func() {
			_, err := io.Copy(conn.Conn, stdin)
			if _, ok := errors.AsType[term.EscapeError](err); ok {
				close(detached)
				return
			}
			// The input of a raw terminal only ends if the terminal is lost. The
			// process keeps running, and its output is still needed.
			if p.Terminal == nil {
				_ = conn.CloseWrite()
			}
		}()
	}
	select {
	case <-detached:
		// Closing stdin detaches. If the connection were closed during output, old
		// engines would close the process's terminal, which ends it.
		_ = conn.CloseWrite()
		select {
		case <-output: //nolint:errcheck // truncated on purpose
		case <-time.After(detachGrace):
		}
		return lifecycle.ErrDetached
	case <-ctx.Done():
		return ctx.Err()
	case err := <-output:
		if err != nil {
			return fmt.Errorf("reading the output of %s: %w", p.Args[0], err)
		}
		return nil
	}
}

// detachGrace bounds how long the engine takes to detach.
const detachGrace = 5 * time.Second

// detachable returns input that ends with [term.EscapeError] at the detach keys.
func detachable(in io.Reader, keys string) (io.Reader, error) {
	escape := []byte{16, 17} // ctrl-p ctrl-q, Docker's default
	if keys != "" {
		var err error
		if escape, err = term.ToBytes(keys); err != nil {
			return nil, fmt.Errorf("parsing detachKeys of Docker's configuration: %w", err)
		}
	}
	return term.NewEscapeProxy(in, escape), nil
}

// maxResizePause bounds the pauses between repetitions of the same size. A busy engine
// can take seconds to start a process.
const maxResizePause = 5 * time.Second

// followSize forwards the size of the user's terminal. Old engines take no initial size,
// and reject or ignore a size before the process runs, so it is repeated with growing
// pauses.
func (d *Driver) followSize(ctx context.Context, execID string, t lifecycle.Terminal) {
	pause := 10 * time.Millisecond
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		if h, w := t.Size(); h != 0 || w != 0 {
			_, _ = d.API.ExecResize(ctx, execID, client.ExecResizeOptions{Height: h, Width: w}) // repeated later
		}
		select {
		case <-ctx.Done():
			return
		case <-t.Resized():
		case <-again.C:
			if pause *= 2; pause < maxResizePause {
				again.Reset(pause)
			}
		}
	}
}
