package run

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// setUp runs the set-up commands of the configuration in a clone in which they have not succeeded. A shell
// starts even if they fail, so that the user can look around. They do not run beside another command.
func (h session) setUp(ctx context.Context, r Ready, sb lifecycle.Sandbox, alone bool) error {
	commands := r.cfg.Setup
	if !sb.Clone || len(commands) == 0 {
		return nil
	}
	if done, err := r.git.Repo.IsSetUp(commands); done || err != nil {
		return err
	}
	shell := r.opts.Command == host.ShellCommand
	switch {
	case !alone && shell:
		return nil
	case !alone:
		return hint.Wrap(fmt.Errorf("sandbox %s is not set up, and another command is running in it", sb.Name), "wait for its end")
	}

	for _, command := range commands {
		err := h.runSetUp(ctx, r, sb, command)
		if err != nil && shell {
			h.Report("Warning: " + err.Error())
			return nil
		}
		if err != nil {
			return hint.Wrap(err, "correct workspace.setup, or look around with %q", "docker ralph shell")
		}
	}
	return r.git.Repo.SetUp(ctx, commands)
}

// runSetUp runs one command with the environment of the agent. Its output is no result: it goes to stderr.
func (h session) runSetUp(ctx context.Context, r Ready, sb lifecycle.Sandbox, command string) error {
	h.Report("Setting up the sandbox: " + termsafe.Line(command))
	signals, stop := h.Forward(ctx)
	defer stop()
	output, id := termsafe.NewWriter(h.Stderr), lifecycle.NewServiceID()
	ctx, done := h.forward(ctx, r.Driver, sb, id, signals)
	defer done()
	code, err := r.Driver.Exec(ctx, sb, lifecycle.Process{
		ID: id, Args: []string{"sh", "-c", command}, AnyCode: true, Dir: filepath.ToSlash(sb.Root), Env: r.env,
		Stdout: output, Stderr: output,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("setting up sandbox %s: %q has failed with exit code %d", sb.Name, command, code)
	}
	return err
}
