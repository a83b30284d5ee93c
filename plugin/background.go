package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/docker/cli/cli"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// backgroundEnv marks the process that runs a loop in the background.
const backgroundEnv = "DOCKER_RALPH_BACKGROUND"

// detachable lets a loop continue without its terminal. The context that it returns
// does not end with the terminal. In a process in the background, ready is written when
// the loop runs; it is nil in others.
func (d dispatcher) detachable(ctx context.Context, h *host.Host, ready *os.File) context.Context {
	ctx, lost := d.interrupts.Survive(ctx)
	h.Background = &host.Background{Lost: lost, ReleaseTTY: releaseTTY(saveTerminal())}
	if ready != nil {
		h.Stdin, h.Terminal = nil, nil
		h.Background.Ready = func(sandbox string) {
			_, _ = fmt.Fprintln(ready, sandbox) // the other end may be closed
			_ = ready.Close()
		}
	}
	return ctx
}

// detach runs this command in a process in the background, and waits until its loop
// runs. Until then, that process has the terminal for its questions.
func (d dispatcher) detach(ctx context.Context, name string) error {
	if !host.IsLoop(name) {
		return errors.New("--detach works with plan and build only")
	}
	if !canDetach {
		return hint.Wrap(errors.New("--detach is not supported on this system"), "detach with Ctrl+P, Ctrl+Q")
	}
	process, ready, err := startBackground()
	if err != nil {
		return fmt.Errorf("starting the loop in the background: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = process.Signal(os.Interrupt) })()
	sandbox, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		state, err := process.Wait()
		if err != nil {
			return fmt.Errorf("waiting for the loop in the background: %w", err)
		}
		return cli.StatusError{StatusCode: max(state.ExitCode(), 1)} // it has printed its error
	}
	sandbox = strings.TrimSpace(sandbox)
	_, _ = fmt.Fprintln(d.cli.Out(), sandbox)
	_, _ = fmt.Fprintf(d.cli.Err(), "ralph %s is running in the background\n"+
		"Hint: follow it with %q, attach with %q, stop it with %q\n", name,
		"docker ralph logs -f "+sandbox, "docker ralph attach "+sandbox, "docker ralph stop "+sandbox)
	return nil
}
