package engine

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
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
