package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// stateOf returns the state of the dispatch id, and whether any dispatch is running.
func stateOf(proc, home, id string) (state string, anyRuns bool, err error) {
	records, err := readRecords(home)
	if err != nil {
		return "", false, err
	}
	all, err := dispatchProcesses(proc, records)
	if err != nil {
		return "", false, err
	}
	state = wire.StateUnknown
	for _, r := range records {
		if r.ID == id {
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

// runningDispatch is a dispatch with a running process.
type runningDispatch struct {
	ID      string   `json:"id"`
	Command []string `json:"command"`
	Since   string   `json:"since"`
}

// runDispatches prints the running dispatches.
func runDispatches(s streams, args []string) error {
	if len(args) != 0 {
		return errUsage
	}
	running, err := runningDispatches(procDir, knownRecords())
	if err != nil {
		return err
	}
	return printJSON(s, struct {
		Dispatches []runningDispatch `json:"dispatches"`
	}{running})
}

// runningDispatches lists the running dispatches, earliest first.
func runningDispatches(proc string, records []record) ([]runningDispatch, error) {
	all, err := dispatchProcesses(proc, records)
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
		running = append(running, runningDispatch{p.dispatch, commandOf(proc, p, records), p.since(boot).UTC().Format(time.RFC3339)})
	}
	return running, nil
}

// OtherSession returns the command of a session in the sandbox other than the caller's,
// such as another loop or a shell, or "". Short commands of ralph are none.
func OtherSession() string { return otherSession(procDir, knownRecords(), os.Getenv(wire.DispatchEnv)) }

func otherSession(proc string, records []record, own string) string {
	running, err := runningDispatches(proc, records)
	if err != nil {
		return "" // there is no other way to find out
	}
	for _, d := range running {
		if d.ID != own && !wire.IsService(d.ID) && isSession(d.Command) {
			return strings.Join(d.Command, " ")
		}
	}
	return ""
}

// isSession reports whether a command may work on files.
func isSession(command []string) bool {
	if len(command) < 2 || filepath.Base(command[0]) != wire.Program {
		return len(command) > 0
	}
	return command[1] != "task" && !strings.HasPrefix(command[1], "_")
}

// commandOf returns the command from the dispatch's record, or of the process.
func commandOf(proc string, p process, records []record) []string {
	for _, r := range records {
		if r.ID == p.dispatch {
			return r.Command
		}
	}
	args := cmdline(proc, p.pid)
	if marked(args) == p.dispatch {
		args = args[:len(args)-1]
	}
	return append([]string{}, args...) // never null
}

func printJSON(s streams, v any) error {
	enc := json.NewEncoder(s.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// startTimeout bounds how long a dispatch may take to start, in polls.
const startTimeout = 30

var errHoldTimeout = codedError{wire.HoldTimeUp, errors.New("dispatches are still running")}

// runHold waits until no dispatch is running: ID [TIMEOUT], with the ID of one that
// is about to start. While it waits, the microVM is not idle and thus not stopped.
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
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errHoldTimeout)
		defer cancel()
	}
	home, err := homeDir()
	if err != nil {
		return err
	}
	return hold(ctx, procDir, home, args[0], time.Second)
}

func hold(ctx context.Context, proc, home, id string, poll time.Duration) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	started := false
	for waited := 0; ; waited++ {
		state, anyRuns, err := stateOf(proc, home, id)
		if err != nil {
			return err
		}
		started = started || state != wire.StateUnknown || waited >= startTimeout
		if started && !anyRuns {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
