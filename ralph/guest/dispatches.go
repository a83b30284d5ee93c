package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"
)

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
	running, err := runningDispatches(procDir)
	if err != nil {
		return err
	}
	return printJSON(s, struct {
		Dispatches []runningDispatch `json:"dispatches"`
	}{running})
}

// runningDispatches lists the running dispatches, earliest first.
func runningDispatches(proc string) ([]runningDispatch, error) {
	all, err := dispatchProcesses(proc)
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
		running = append(running, runningDispatch{p.dispatch, commandOf(proc, p), p.since(boot).UTC().Format(time.RFC3339)})
	}
	return running, nil
}

// OtherSession returns the command of a session in the sandbox other than the caller's,
// such as another loop or a shell, or "". Short commands of ralph are none.
func OtherSession() string { return otherSession(procDir, os.Getenv(wire.DispatchEnv)) }

func otherSession(proc, own string) string {
	running, err := runningDispatches(proc)
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

// commandOf returns the command of a dispatch from its first process.
func commandOf(proc string, p process) []string {
	args := cmdline(proc, p.pid)
	if d, err := startingDispatch(args); err == nil {
		return d.command
	}
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
