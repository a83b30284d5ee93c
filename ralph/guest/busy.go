package guest

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"
)

// startingTime is how long a process of docker-ralph itself may take to become recognizable.
const startingTime = 100 * time.Millisecond

// runBusy prints whether a command of the user or of an agent runs in the sandbox.
func runBusy(s streams, args []string) error {
	if len(args) != 0 {
		return errUsage
	}
	busy, err := hasCommands(procDir)
	if err == nil && busy {
		time.Sleep(startingTime)
		busy, err = hasCommands(procDir)
	}
	if err != nil {
		return err
	}
	return printJSON(s, struct {
		Busy bool `json:"busy"`
	}{busy})
}

// hasCommands reports whether there is a process that is not one of docker-ralph itself.
func hasCommands(proc string) (bool, error) {
	pids, err := sysinfo.Processes(proc)
	if err != nil {
		return false, fmt.Errorf("listing processes: %w", err)
	}
	return slices.ContainsFunc(pids, func(pid int) bool {
		stat := sysinfo.Stat(proc, pid)
		switch {
		case pid == 1, stat == nil, stat[sysinfo.StatState] == "Z", stat[sysinfo.StatState] == "X":
			return false
		}
		return !wire.IsService(dispatchOf(proc, pid)) && !isOurs(proc, pid)
	}), nil
}

// isOurs reports whether a process is ralph that lists processes or relays a session. The environment of the latter
// is that of another user.
func isOurs(proc string, pid int) bool {
	args := cmdline(proc, pid)
	return len(args) > 1 && filepath.Base(args[0]) == wire.Program && slices.Contains([]string{"_busy", "_dispatches", "_session"}, args[1])
}
