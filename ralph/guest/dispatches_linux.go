package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"
)

// runDispatched prints the state of a dispatch: ID.
func runDispatched(s streams, args []string) error {
	if len(args) != 1 || !validID(args[0]) {
		return errUsage
	}
	home, err := homeDir()
	if err != nil {
		return err
	}
	state, _, err := stateOf(procDir, home, args[0])
	if err != nil {
		return err
	}
	return printJSON(s, struct {
		State string `json:"state"`
	}{state})
}

// stateOf returns the state of the dispatch id, and whether any dispatch runs.
func stateOf(proc, home, id string) (state string, anyRuns bool, err error) {
	notes, err := readNotes(home)
	if err != nil {
		return "", false, err
	}
	all, err := dispatchProcesses(proc, notes)
	if err != nil {
		return "", false, err
	}
	state = wire.StateUnknown
	for _, n := range notes {
		if n.ID == id {
			state = wire.StateEnded
		}
	}
	for _, p := range all {
		if p.dispatch == id {
			state = wire.StateRunning
		}
	}
	return state, len(all) > 0, nil
}

// runningDispatch is a dispatch of which a process lives.
type runningDispatch struct {
	ID      string   `json:"id"`
	Command []string `json:"command"`
	Since   string   `json:"since"`
}

// runDispatches prints what runs.
func runDispatches(s streams, args []string) error {
	if len(args) != 0 {
		return errUsage
	}
	running, err := runningDispatches(procDir, knownNotes())
	if err != nil {
		return err
	}
	return printJSON(s, struct {
		Dispatches []runningDispatch `json:"dispatches"`
	}{running})
}

// runningDispatches lists the dispatches that run, the earliest first.
func runningDispatches(proc string, notes []note) ([]runningDispatch, error) {
	all, err := dispatchProcesses(proc, notes)
	if err != nil {
		return nil, err
	}
	boot, err := bootTime(proc)
	if err != nil {
		return nil, err
	}
	running, seen := []runningDispatch{}, map[string]bool{}
	for _, p := range all {
		if seen[p.dispatch] {
			continue
		}
		seen[p.dispatch] = true
		running = append(running, runningDispatch{p.dispatch, commandOf(proc, p, notes), p.since(boot).UTC().Format(time.RFC3339)})
	}
	return running, nil
}

// commandOf returns what a dispatch was told to run, or what it runs.
func commandOf(proc string, p process, notes []note) []string {
	for _, n := range notes {
		if n.ID == p.dispatch {
			return n.Command
		}
	}
	cmdline, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(p.pid), "cmdline"))
	if err != nil {
		return []string{} // it has just ended
	}
	args := []string{}
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}

func printJSON(s streams, v any) error {
	enc := json.NewEncoder(s.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// secondEnv is how long a second is for tests, as Go writes durations.
const secondEnv = "RALPH_TEST_SECOND"

func second() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(secondEnv)); err == nil && d > 0 {
		return d
	}
	return time.Second
}

// appearance bounds how long a dispatch may take to begin, in seconds.
const appearance = 30

// errHoldTimeUp is how runHold ends when dispatches outlast its time.
var errHoldTimeUp = codedError{wire.HoldTimeUp, errors.New("dispatches still run")}

// runHold waits until no dispatch runs: ID [TIME], the former of one that is
// about to begin. As long as it waits, a microVM is not stopped for being idle.
func runHold(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 || !validID(args[0]) {
		return errUsage
	}
	if len(args) == 2 {
		limit, err := time.ParseDuration(args[1])
		if err != nil || limit <= 0 {
			return errUsage
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errHoldTimeUp)
		defer cancel()
	}
	home, err := homeDir()
	if err != nil {
		return err
	}
	return hold(ctx, procDir, home, args[0])
}

func hold(ctx context.Context, proc, home, id string) error {
	tick := time.NewTicker(second())
	defer tick.Stop()
	begun := false
	for waited := 0; ; waited++ {
		state, anyRuns, err := stateOf(proc, home, id)
		if err != nil {
			return err
		}
		begun = begun || state != wire.StateUnknown || waited >= appearance
		if begun && !anyRuns {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
