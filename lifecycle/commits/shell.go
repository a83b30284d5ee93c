package commits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Shell runs scripts in a sandbox. A script without input and output for [FetchTimeout] is
// abandoned, because an agent can make its git hang; one that was sent a lot may process it
// for longer. That is not the error of a lost connection, after which a script is repeated.
func Shell(driver lifecycle.Driver, sb lifecycle.Sandbox) gitsync.Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var w watch
		w.idle = time.AfterFunc(w.timeout(), func() {
			cancel(fmt.Errorf("git in sandbox %s hangs: no data for %s", sb.Name, w.timeout().Round(time.Second)))
		})
		defer w.idle.Stop()
		if stdin != nil {
			stdin = activeReader{stdin, &w}
		}
		err := lifecycle.RunService(ctx, driver, sb, stdin, activeWriter{stdout, &w}, append([]string{"sh", "-c", script, "sh"}, args...)...)
		if exit, failed := errors.AsType[*lifecycle.ExitError](err); failed {
			return &gitsync.ScriptError{Code: exit.Code, Stderr: exit.Stderr}
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// processRate is how many bytes per second git indexes at least.
const processRate = 1 << 20

// watch abandons a script that is idle.
type watch struct {
	idle *time.Timer
	sent atomic.Int64
}

// timeout is how long the script may be idle.
func (w *watch) timeout() time.Duration {
	return FetchTimeout + time.Duration(float64(w.sent.Load())/processRate*float64(time.Second))
}

type activeReader struct {
	io.Reader
	watch *watch
}

func (r activeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.watch.sent.Add(int64(n))
	r.watch.idle.Reset(r.watch.timeout())
	return n, err
}

type activeWriter struct {
	io.Writer
	watch *watch
}

func (w activeWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.watch.idle.Reset(w.watch.timeout())
	return n, err
}
