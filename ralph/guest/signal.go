package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// runSignal sends a signal to the first process of a dispatch: SIGNAL ID. Neither the
// Engine API nor the CLI of a microVM can signal a process that they started.
func runSignal(args []string) error {
	if len(args) != 2 || args[1] == "" {
		return errUsage
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "SIG"))
	if sig == 0 {
		return fmt.Errorf("unknown signal %q", args[0])
	}
	pid, err := findDispatch(procDir, args[1])
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

// runFinish asks the loop of a dispatch to stop after the current run: ID. Programs
// other than ralph are interrupted.
func runFinish(args []string) error {
	if len(args) != 1 || args[0] == "" {
		return errUsage
	}
	pid, err := findDispatch(procDir, args[0])
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, finishSignal(procDir, pid)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

// finishSignal returns SIGUSR1 for a ralph that handles it and SIGINT otherwise: an
// unhandled SIGUSR1 kills a shell, and makes node listen for a debugger.
func finishSignal(proc string, pid int) unix.Signal {
	args := cmdline(proc, pid) // the link to the program of a loop is not readable
	status, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if len(args) > 0 && filepath.Base(args[0]) == wire.Program && catches(status, unix.SIGUSR1) {
		return unix.SIGUSR1
	}
	return unix.SIGINT
}

// catches reports whether a process handles a signal, by its /proc status.
func catches(status []byte, sig unix.Signal) bool {
	for line := range bytes.Lines(status) {
		if mask, ok := bytes.CutPrefix(line, []byte("SigCgt:")); ok {
			caught, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
			return err == nil && caught>>(sig-1)&1 == 1
		}
	}
	return false
}

func findDispatch(proc, id string) (int, error) {
	all, err := dispatchProcesses(proc)
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
