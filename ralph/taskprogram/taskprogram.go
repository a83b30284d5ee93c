// Package taskprogram calls a program that has the command line of "ralph
// task". Session hooks know the backlog by such a program only, and a layout
// may have another one than ours.
package taskprogram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// timeout bounds one call. The program may have to wait for a lock.
	timeout = time.Minute
	// drain bounds the wait for output after the program's end: what it has
	// left running may hold the pipe.
	drain = time.Second
	// attempts bounds how often a program is started that Ctrl+C has ended.
	attempts = 4
)

// Program is such a program.
type Program struct {
	Path string
	// Env is its environment as KEY=value; nil means that of this process.
	Env []string
}

// Run carries out one command. The program reads nothing. Ctrl+C does not
// reach it: what is asked of it after Ctrl+C matters most.
func (p Program) Run(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := p.start(ctx, stdout, stderr, p.Path, args...)
	for n := 1; isInterrupted(err) && n < attempts && ctx.Err() == nil; n++ {
		err = p.start(ctx, stdout, stderr, p.Path, args...)
	}
	if errors.Is(err, syscall.ENOEXEC) { // a script that names no interpreter is sh's, as for every shell
		err = p.start(ctx, stdout, stderr, "/bin/sh", append([]string{p.Path}, args...)...)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", p.Path, strings.Join(args[:min(len(args), 2)], " "), err)
	}
	return nil
}

func (p Program) start(ctx context.Context, stdout, stderr io.Writer, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.Env, stdout, stderr, drain
	ownGroup(cmd)
	if err := cmd.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// isInterrupted tells that a program was ended by a signal for our process group,
// and so before it has done anything: leaving the group is the first that happens in
// a new process.
func isInterrupted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGHUP)
}

// Output carries out one command and returns what it prints. Its errors go to
// stderr; nil drops them.
func (p Program) Output(ctx context.Context, stderr io.Writer, args ...string) (string, error) {
	var out strings.Builder
	err := p.Run(ctx, &out, stderr, args...)
	return out.String(), err
}

// Active returns the active tasks of an agent: the lines of its list that
// begin with "id: ".
func (p Program) Active(ctx context.Context, agent string) ([]string, error) {
	out, err := p.Output(ctx, nil, "list", "--status", "active", "--assignee", agent, "--markdown")
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.Lines(out) {
		if id, found := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "id: "); found && id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Fail gives a task back.
func (p Program) Fail(ctx context.Context, stdout, stderr io.Writer, id, reason string) error {
	return p.Run(ctx, stdout, stderr, "fail", id, "--reason", reason)
}
