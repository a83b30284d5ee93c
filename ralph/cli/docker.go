package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// docker implements "ralph --docker COMMAND …", an alias of "docker ralph COMMAND …".
func (o Options) docker(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] == "" {
		o.complain("--docker requires a subcommand (e.g. ralph --docker plan)")
		_, _ = fmt.Fprintln(o.Stderr, "Run 'ralph --docker --help' for usage")
		return exitFailure
	}
	if args[0] == "--help" || args[0] == "-h" {
		_, _ = fmt.Fprint(o.Stdout, help.Text("docker"))
		return exitOK
	}
	path, err := exec.LookPath("docker")
	if err != nil {
		o.fail(hint.Wrap(errors.New("the docker command is not on PATH"), "install Docker Engine (https://docs.docker.com/engine/install/) or Docker Desktop"))
		return exitFailure
	}
	// Not killed by ctx: docker handles signals itself.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, append([]string{"ralph"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	err = runForeground(cmd)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	if err != nil {
		o.complain(fmt.Sprintf("running docker: %s", err))
		return exitFailure
	}
	return exitOK
}

// runForeground runs a command that receives the terminal's signals itself; only
// SIGTERM is forwarded.
func runForeground(cmd *exec.Cmd) error {
	return runSignalled(cmd, func(sig os.Signal) bool { return sig == syscall.SIGTERM })
}

// runSignalled runs a command and forwards the selected signals to it.
func runSignalled(cmd *exec.Cmd, forward func(os.Signal) bool) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			return err
		case sig := <-signals:
			if forward(sig) {
				_ = cmd.Process.Signal(sig) // fails after its exit
			}
		}
	}
}
