package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/mirror"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// pollEvery is how often the processes of a sandbox are listed.
const pollEvery = time.Second

// ErrUnknownEnd means that a loop has ended with an unknown exit code.
var ErrUnknownEnd = errors.New("the loop has ended with an unknown exit code: it was killed, or its log was removed")

// mirrorGrace is how long another process may take to copy the log of a clone.
const mirrorGrace = 45 * time.Second

// wait waits for a loop without a connection to it, and returns the exit code in its log.
func wait(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, id string) (int, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if running, err := Runs(ctx, driver, sb, id); err == nil && !running {
			return EndOf(ctx, h, driver, sb, id)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// EndOf returns the exit code of a loop that has ended. The log of one in a clone is copied first.
func EndOf(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, id string) (int, error) {
	for end := time.Now().Add(mirrorGrace); ; {
		code, err := CodeOf(sb.Root, id)
		if err == nil {
			return code, nil
		}
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		copied, copyErr := mirror.Copy(limited, h, driver, sb)
		cancel()
		if noAnswer(copyErr) {
			return 0, copyErr
		}
		if copied || copyErr != nil || time.Now().After(end) || pause(ctx) != nil {
			return CodeOf(sb.Root, id)
		}
	}
}

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

// CodeOf returns the exit code in the log of a loop.
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
