package guest

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// runSignal sends a signal to the one process that a dispatch started. What
// starts processes in a sandbox, the Engine API or the CLI of a microVM, cannot
// signal them. The process is known by its dispatch ID, which its children
// inherit, and by being the oldest of those that have it.
func runSignal(args []string) error {
	if len(args) != 2 || args[1] == "" {
		return errUsage
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "SIG"))
	if sig == 0 {
		return fmt.Errorf("unknown signal %q", args[0])
	}
	pid, err := findDispatch(procDir, args[1], knownNotes())
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

func findDispatch(proc, id string, notes []note) (int, error) {
	all, err := dispatchProcesses(proc, notes)
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.dispatch == id {
			return p.pid, nil
		}
	}
	return 0, fmt.Errorf("no process of dispatch %s", id)
}
