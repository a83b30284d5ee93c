package manage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// fate finds out whether the loop of a dispatch still runs, and how it ended.
type fate struct {
	host    host.Host
	own     string // name of the scope's sandbox
	sandbox string // where the loop runs: that one, or one that was made for it
	top     string // of the work tree
	id      string

	driver lifecycle.Driver // nil until somebody has to be asked
	sb     lifecycle.Sandbox
	asked  time.Time
	last   bool // what it said
	warned bool
}

// fateOf is that of a dispatch in a sandbox of the scope whose own sandbox has
// the name.
func fateOf(h host.Host, name, top, id string) *fate {
	f := &fate{host: h, own: name, sandbox: name, top: top, id: id}
	if all, err := h.RecordsOf(name); err == nil {
		for _, n := range all {
			if n.ID == id {
				f.sandbox = n.Sandbox
			}
		}
	}
	return f
}

// askEvery is how often a sandbox is asked what runs in it.
const askEvery = 2 * time.Second

// over says whether the loop has ended, and then its exit code. The error is
// [errUnknownEnd] if nobody knows that.
func (f *fate) over(ctx context.Context) (code int, over bool, err error) {
	path := filepath.Join(f.host.RecordDir(f.sandbox), f.id)
	if _, err := os.Lstat(path); err == nil {
		n, ok := host.ReadRecord(path)
		if ok && n.Live || ok && f.runs(ctx) {
			return 0, false, nil
		}
		if ok {
			_ = os.Remove(path)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, false, fmt.Errorf("reading the run record: %w", err)
	}
	if e, err := host.Ended(f.host.StateDir, f.own); err == nil && e.ID == f.id {
		return e.ExitCode, true, nil
	}
	code, err = run.CodeOf(f.top, f.id)
	if err != nil && f.runs(ctx) {
		return 0, false, nil // it was dispatched from elsewhere
	}
	return code, true, err
}

// runs asks the sandbox, now and then. Without an answer the loop is taken to
// run.
func (f *fate) runs(ctx context.Context) bool {
	if time.Since(f.asked) < askEvery {
		return f.last
	}
	f.asked = time.Now()
	running, err := f.ask(ctx)
	if err != nil && !f.warned && ctx.Err() == nil {
		f.warned = true
		f.host.Report(fmt.Sprintf("Warning: unknown whether the loop is still running: %v", err))
	}
	f.last = err != nil || running
	return f.last
}

func (f *fate) ask(ctx context.Context) (bool, error) {
	if f.driver == nil {
		driver, sb, err := f.host.Made(ctx, f.sandbox)
		if err != nil {
			return false, err
		}
		f.driver, f.sb = driver, sb
	}
	if f.sb.State != lifecycle.Running {
		return false, nil
	}
	return run.Runs(ctx, f.driver, f.sb, f.id)
}
