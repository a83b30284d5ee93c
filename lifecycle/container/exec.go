package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// demultiplex takes apart what an engine sends when there is no terminal.
func demultiplex(stdout, stderr io.Writer, r io.Reader) error {
	_, err := stdcopy.StdCopy(stdout, stderr, r)
	return err
}

// Exec implements [lifecycle.Driver].
func (d *Driver) Exec(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	program, ok := d.readMarker(sb)
	if !ok {
		return 0, lifecycle.ErrNotPrepared
	}
	if err := d.closeBare(ctx, sb); err != nil {
		return 0, err
	}
	args := append([]string{program.Path(), "_exec"}, p.Args...) // for its umask
	if p.Args[0] == wire.Program {
		args = append([]string{program.Path()}, p.Args[1:]...)
	}
	env := []string{"HOME=" + Home, wire.DispatchEnv + "=" + p.ID}
	if sb.Cache != "" {
		env = append(env, cacheEnvironment(sb.User, sb.Root)...)
	}
	env = append(env, p.Env...) // which may say something else
	if sb.Proxy != "" {
		env = throughProxy(env, sb.Proxy)
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
	made, err := d.API.ExecCreate(ctx, sb.ID, opts)
	if err != nil {
		return 0, fmt.Errorf("running %s in the sandbox %s: %w", p.Args[0], sb.Name, err)
	}
	conn, err := d.API.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: opts.TTY, ConsoleSize: opts.ConsoleSize})
	if err != nil {
		return 0, fmt.Errorf("running %s in the sandbox %s: %w", p.Args[0], sb.Name, err)
	}
	defer conn.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.forwardSignals(ctx, sb, program.Path(), p)
	if err := d.stream(ctx, made.ID, conn.HijackedResponse, p); err != nil {
		return 0, err
	}
	code, err := d.exitCode(ctx, made.ID)
	if err == nil && code == killed && d.endedItself(ctx, sb) {
		_, _ = fmt.Fprintf(p.Stderr, "Error: a run of the agent took longer than its time limit, and nothing in the sandbox could end it: the sandbox %s was stopped\n", sb.Name)
		code = exitTimeUp
	}
	return code, err
}

const (
	// killed is the exit code of what was ended by SIGKILL, as everything is
	// whose sandbox ends.
	killed = 128 + 9
	// exitTimeUp is that of the first process that ends it.
	exitTimeUp = wire.ExitDeadline
)

// endedItself reports whether a sandbox was ended by its first process because a
// run took too long. The engine learns that a moment after what ran in it.
func (d *Driver) endedItself(ctx context.Context, sb lifecycle.Sandbox) bool {
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

// stream carries the process's input and output until it has ended or the
// user has detached.
func (d *Driver) stream(ctx context.Context, execID string, conn client.HijackedResponse, p lifecycle.Process) error {
	stdin := p.Stdin
	if p.Terminal != nil {
		restore, err := p.Terminal.MakeRaw()
		if err != nil {
			return fmt.Errorf("setting up the terminal: %w", err)
		}
		defer restore()
		if stdin, err = escapable(p.Stdin, p.Terminal.DetachKeys()); err != nil {
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
		output <- demultiplex(p.Stdout, p.Stderr, conn.Reader)
	}()
	detached := make(chan struct{})
	if stdin != nil {
		go func() {
			_, err := io.Copy(conn.Conn, stdin)
			if _, ok := errors.AsType[term.EscapeError](err); ok {
				close(detached)
				return
			}
			// What ends the input of a raw terminal is that it is lost: the
			// process goes on, and the engine would let go of its output.
			if p.Terminal == nil {
				_ = conn.CloseWrite()
			}
		}()
	}
	select {
	case <-detached:
		// The end of the input makes the engine let go of the process. Were the
		// connection closed while output is on its way, old engines would close
		// the process's terminal, and so end it.
		_ = conn.CloseWrite()
		select {
		case <-output: //nolint:errcheck // it is cut off, and that is meant
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

// detachGrace is how long the engine may take to let go of a process.
const detachGrace = 5 * time.Second

// escapable watches input for the keys that detach.
func escapable(in io.Reader, keys string) (io.Reader, error) {
	escape := []byte{16, 17} // ctrl-p ctrl-q, Docker's default
	if keys != "" {
		var err error
		if escape, err = term.ToBytes(keys); err != nil {
			return nil, fmt.Errorf("reading detachKeys of Docker's configuration: %w", err)
		}
	}
	return term.NewEscapeProxy(in, escape), nil
}

// sizePatience bounds the pauses between tellings of the same size. A busy engine
// may take seconds to start a process.
const sizePatience = 5 * time.Second

// followSize keeps the size of the process's terminal that of the user's. Old
// engines take no size at the start, and one that comes before the process is
// there is refused or lost without a word: it is told again, ever less often.
func (d *Driver) followSize(ctx context.Context, execID string, t lifecycle.Terminal) {
	pause := 10 * time.Millisecond
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		if h, w := t.Size(); h != 0 || w != 0 {
			_, _ = d.API.ExecResize(ctx, execID, client.ExecResizeOptions{Height: h, Width: w}) // there is a next time
		}
		select {
		case <-ctx.Done():
			return
		case <-t.Resized():
		case <-again.C:
			if pause *= 2; pause < sizePatience {
				again.Reset(pause)
			}
		}
	}
}

// forwardSignals delivers signals to the process. The Engine API cannot, so
// ralph does, run a second time inside.
func (d *Driver) forwardSignals(ctx context.Context, sb lifecycle.Sandbox, program string, p lifecycle.Process) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-p.Signals:
			name := "INT"
			if sig == syscall.SIGTERM {
				name = "TERM"
			}
			if _, err := d.run(ctx, sb, sb.User, program, "_signal", name, p.ID); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintf(p.Stderr, "Warning: passing the signal on to the sandbox: %v\n", err)
			}
		}
	}
}

// exitCode waits until the engine knows how the process has ended. Its output
// can end a moment earlier; much earlier it ends when the connection to the
// engine was lost.
func (d *Driver) exitCode(ctx context.Context, execID string) (int, error) {
	deadline := time.Now().Add(10 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		res, err := d.API.ExecInspect(ctx, execID, client.ExecInspectOptions{})
		if err != nil {
			return 0, fmt.Errorf("asking how the command has ended: %w", err)
		}
		if !res.Running {
			return res.ExitCode, nil
		}
		if time.Now().After(deadline) {
			return 0, errors.New("the connection to the engine was lost, but the command still runs in the sandbox")
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}
