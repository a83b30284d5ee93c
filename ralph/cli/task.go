package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/ralph/task"
)

// maxPlan limits the plan on standard input, in bytes. It fits in a request.
const maxPlan = 4 << 20

// task implements "ralph task". In a sandbox, the host runs the command.
func (o Options) task(ctx context.Context, args []string) int {
	// The process is too short-lived for garbage collection to pay off.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !inSandbox() || !needsBacklog(args) {
		return task.Run(ctx, args, task.IO{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Getenv: os.Getenv})
	}
	answer, err := o.taskOnHost(ctx, args)
	switch {
	case ctx.Err() != nil && err != nil:
		o.complain("interrupted")
		return exitInterrupted
	case err != nil:
		o.fail(err)
		return exitFailure
	}
	_, _ = o.Stderr.Write(answer.Stderr)
	if _, err := o.Stdout.Write(answer.Stdout); err != nil {
		o.fail(fmt.Errorf("writing the result: %w", err))
		return max(answer.Code, exitFailure)
	}
	return answer.Code
}

// needsBacklog reports whether a task command reads or changes the backlog.
func needsBacklog(args []string) bool {
	return len(args) > 0 && !slices.Contains([]string{"", "--help", "-h", "_get-scope", "_render-md"}, args[0])
}

func (o Options) taskOnHost(ctx context.Context, args []string) (answer session.TaskResponse, err error) {
	h, err := o.connect(taskWait)
	if err != nil {
		return answer, err
	}
	var stdin []byte
	if args[0] == "plan-sync" {
		if stdin, err = io.ReadAll(io.LimitReader(o.Stdin, maxPlan+1)); err != nil {
			return answer, fmt.Errorf("reading the plan: %w", err)
		}
		if len(stdin) > maxPlan {
			return answer, fmt.Errorf("the plan on standard input is longer than %d MiB", maxPlan>>20)
		}
	}
	return h.runTask(ctx, args, stdin)
}

// taskRunner returns a function that runs task commands for another command.
func (o Options) taskRunner() (func(ctx context.Context, args []string) (session.TaskResponse, error), error) {
	if !inSandbox() {
		return runLocalTask, nil
	}
	h, err := o.connect(taskWait)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, args []string) (session.TaskResponse, error) {
		return h.runTask(ctx, args, nil)
	}, nil
}

func runLocalTask(ctx context.Context, args []string) (session.TaskResponse, error) {
	var stdout, stderr bytes.Buffer
	code := task.Run(ctx, args, task.IO{Stdin: new(bytes.Buffer), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv})
	return session.TaskResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: code}, nil
}
