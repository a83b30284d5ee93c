package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// mindEvery is how often it is looked whether what nobody is connected to still
// runs.
const mindEvery = time.Second

// ErrUnknownEnd means that a loop has ended, and nobody knows how.
var ErrUnknownEnd = errors.New("the loop has ended, but nothing says how: it was killed, or its log is gone")

// mind waits for the end of a process in a sandbox that nobody is connected to
// any more, and returns the exit code that its loop has left in the work tree
// top.
func mind(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, top, id string) (int, error) {
	tick := time.NewTicker(mindEvery)
	defer tick.Stop()
	for {
		if running, err := Runs(ctx, driver, sb, id); err == nil && !running {
			return CodeOf(top, id)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// Runs says whether a process still runs in a sandbox. When the sandbox does not
// run, nothing does.
func Runs(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, id string) (bool, error) {
	running, err := driver.Dispatches(ctx, sb)
	if err != nil {
		found, lookErr := driver.Lookup(ctx, sb.Name)
		if lookErr == nil && (found.State == lifecycle.Stopped || found.State == lifecycle.NotFound || found.ID != sb.ID) {
			return false, nil
		}
		return true, fmt.Errorf("asking what runs in %s: %w", sb.Name, err)
	}
	return slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == id }), nil
}

// CodeOf is the exit code that the loop of a dispatch has left.
func CodeOf(top, id string) (int, error) {
	log, err := runlog.Find(top, func(l runlog.Loop) bool { return l.Dispatch == id })
	if err != nil {
		return 0, ErrUnknownEnd
	}
	defer log.Close()
	if log.Loop.Ended.IsZero() {
		return 0, ErrUnknownEnd
	}
	return log.Loop.ExitCode, nil
}
