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

// pollEvery is how often the processes of a sandbox are listed.
const pollEvery = time.Second

// ErrUnknownEnd means that a loop has ended with an unknown exit code.
var ErrUnknownEnd = errors.New("loop exit code unknown: killed, or log removed")

// Runs reports whether a process still runs in a sandbox.
func Runs(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, id string) (bool, error) {
	running, err := driver.Dispatches(ctx, sb)
	if err != nil {
		found, lookErr := driver.Lookup(ctx, sb.Name)
		if lookErr == nil && (found.State == lifecycle.Stopped || found.State == lifecycle.NotFound || found.ID != sb.ID) {
			return false, nil
		}
		return true, fmt.Errorf("listing the commands in %s: %w", sb.Name, err)
	}
	return slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == id }), nil
}

// CodeOf returns the exit code in the log of a loop. It is [ErrUnknownEnd] for one that was killed.
func CodeOf(logs, id string) (int, error) {
	log, err := runlog.Find(logs, func(l runlog.Loop) bool { return l.Dispatch == id })
	if err != nil {
		return 0, ErrUnknownEnd
	}
	defer log.Close()
	if log.Loop.Ended.IsZero() {
		return 0, ErrUnknownEnd
	}
	return log.Loop.ExitCode, nil
}
