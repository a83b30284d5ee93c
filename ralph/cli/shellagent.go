package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/shell"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// shellAgent is the shell agent's process. Errors of a task are in its output.
func (o Options) shellAgent(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) != 1 {
		o.complain("usage: ralph " + agent.ShellCommand + " plan|build|run")
		return exitFailure
	}
	if agent.Mode(args[0]) == agent.Run {
		if shell.Ask(ctx, o.Stdin, o.Stdout) != nil {
			return exitFailure
		}
		return exitOK
	}
	tasks, closeTasks, err := o.workerBacklog(ctx)
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	defer closeTasks()
	worker := shell.New(tasks, os.Getenv("RALPH_AGENT_ID"), o.Stdout)
	run := worker.Build
	if agent.Mode(args[0]) == agent.Plan {
		run = worker.Plan
	}
	if run(ctx) != nil {
		return exitFailure
	}
	return exitOK
}

// workerBacklog returns the backlog of the shell agent.
func (o Options) workerBacklog(ctx context.Context) (b shell.Backlog, closeIt func(), err error) {
	if inSandbox() {
		h, err := o.connect(taskWait)
		if err != nil {
			return nil, nil, err
		}
		return session.NewWorker(h.runTask), func() {}, nil
	}
	store, err := backlog.OpenHere(ctx, os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	b = store
	if id := os.Getenv("RALPH_AGENT_ID"); id != "" {
		b = store.As(id) // another loop may take the task over
	}
	return b, func() { _ = store.Close() }, nil // every change is committed
}
