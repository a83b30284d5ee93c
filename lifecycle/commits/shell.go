package commits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Shell runs scripts in a sandbox. One without input and output for [FetchTimeout] is
// abandoned: an agent can make its git hang.
func Shell(driver lifecycle.Driver, sb lifecycle.Sandbox) gitsync.Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		idle := time.AfterFunc(FetchTimeout, func() { cancel(fmt.Errorf("no data for %s: %w", FetchTimeout, context.DeadlineExceeded)) })
		defer idle.Stop()
		if stdin != nil {
			stdin = activeReader{stdin, idle}
		}
		err := lifecycle.RunService(ctx, driver, sb, stdin, activeWriter{stdout, idle}, append([]string{"sh", "-c", script, "sh"}, args...)...)
		if exit, failed := errors.AsType[*lifecycle.ExitError](err); failed {
			return &gitsync.ScriptError{Code: exit.Code, Stderr: exit.Stderr}
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// activeReader restarts a timer whenever something was read.
type activeReader struct {
	io.Reader
	idle *time.Timer
}

func (r activeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.idle.Reset(FetchTimeout)
	return n, err
}

// activeWriter restarts a timer whenever something was written.
type activeWriter struct {
	io.Writer
	idle *time.Timer
}

func (w activeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.idle.Reset(FetchTimeout)
	return n, err
}
