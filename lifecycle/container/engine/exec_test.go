package engine

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// execs is an engine with one exec.
type execs struct {
	API
	runs time.Duration // after its output has ended
	from time.Time
}

func (e *execs) ExecInspect(context.Context, string, client.ExecInspectOptions) (client.ExecInspectResult, error) {
	return client.ExecInspectResult{Running: time.Since(e.from) < e.runs, ExitCode: 3}, nil
}

// ExecAttach has no response, as on a connection that drops packets.
func (e *execs) ExecAttach(context.Context, string, client.ExecAttachOptions) (client.ExecAttachResult, error) {
	select {}
}

func TestExitCodeOfAnExecThatStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, err := ExitCode(t.Context(), &execs{runs: time.Second, from: time.Now()}, "x")
		assert.NilError(t, err)
		assert.Equal(t, code, 3)
		_, err = ExitCode(t.Context(), &execs{runs: time.Hour, from: time.Now()}, "x")
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

func TestAttachEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := Attach(ctx, &execs{}, "x", client.ExecAttachOptions{})
	assert.ErrorIs(t, err, context.Canceled)
}

// endless is an engine whose command writes more than its budget.
type endless struct {
	execs
	conn net.Conn
}

func (e *endless) ExecCreate(context.Context, string, client.ExecCreateOptions) (client.ExecCreateResult, error) {
	return client.ExecCreateResult{ID: "x"}, nil
}

func (e *endless) ExecAttach(context.Context, string, client.ExecAttachOptions) (client.ExecAttachResult, error) {
	frame := append([]byte{1, 0, 0, 0, 0, 1, 0, 0}, make([]byte, 64<<10)...)
	output := bufio.NewReader(strings.NewReader(strings.Repeat(string(frame), maxOutput>>16+1)))
	return client.ExecAttachResult{HijackedResponse: client.HijackedResponse{Conn: e.conn, Reader: output}}, nil
}

func TestOutputOfACommandHasABudget(t *testing.T) {
	conn, other := net.Pipe()
	defer func() { _ = other.Close() }()
	_, err := Exec(t.Context(), &endless{conn: conn}, "id", "0:0", nil, "git")
	assert.ErrorIs(t, err, budget.ErrExceeded)
	assert.Error(t, err, "the output of git is larger than 64MiB: more than its budget")
}
