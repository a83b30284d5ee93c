package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// maxOutput is the budget of a command's output, in bytes: the agent may have replaced the program.
const maxOutput = 64 << 20

// Exec runs a command in a container and returns its output. If it fails, the error has
// the first line of it. stdin may be nil.
func Exec(ctx context.Context, api API, id, user string, stdin io.Reader, args ...string) (output string, err error) {
	created, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{User: user, Cmd: args, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return "", err
	}
	conn, err := Attach(ctx, api, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if stdin != nil {
		go func() { _, _ = io.Copy(conn.Conn, stdin) }() // the command reports missing input
	}
	out := budget.New(maxOutput, "the output of "+args[0])
	if err := Demultiplex(out, out, conn.Reader); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the error is that of the closed connection
		}
		return "", err
	}
	code, err := ExitCode(ctx, api, created.ID)
	if err == nil && code != 0 {
		message, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n") // the rest is hints or a stack trace
		err = errors.New(strings.TrimPrefix(message, "Error: "))
	}
	return out.String(), err
}

// Attach starts an exec and connects to it. The client alone would wait for a response after ctx was
// canceled.
func Attach(ctx context.Context, api API, execID string, opts client.ExecAttachOptions) (client.ExecAttachResult, error) {
	type response struct {
		client.ExecAttachResult
		err error
	}
	responses := make(chan response, 1)
	go func() {
		res, err := api.ExecAttach(ctx, execID, opts)
		responses <- response{res, err}
	}()
	select {
	case r := <-responses:
		return r.ExecAttachResult, r.err
	case <-ctx.Done():
		go func() {
			if r := <-responses; r.err == nil {
				r.Close()
			}
		}()
		return client.ExecAttachResult{}, ctx.Err()
	}
}

// ExitCode waits for the exit code of an exec whose output has ended, which can be a
// moment earlier. Much earlier means that the connection was lost, even if it was closed properly:
// the error is an [io.ErrUnexpectedEOF].
func ExitCode(ctx context.Context, api API, execID string) (int, error) {
	deadline := time.Now().Add(10 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		res, err := api.ExecInspect(ctx, execID, client.ExecInspectOptions{})
		if err != nil {
			return 0, fmt.Errorf("inspecting the command: %w", err)
		}
		if !res.Running {
			return res.ExitCode, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the output ended, but the command is still running: %w", io.ErrUnexpectedEOF)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Demultiplex splits the output of a process without a terminal.
func Demultiplex(stdout, stderr io.Writer, r io.Reader) error {
	_, err := stdcopy.StdCopy(stdout, stderr, r)
	return err
}
