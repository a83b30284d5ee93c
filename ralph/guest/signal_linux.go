package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// runSignal sends a signal to the one process that a dispatch started. The
// Engine API can start a process in a running container but cannot signal
// it. The process is known by its dispatch ID in the environment and by
// having no parent inside the container; its children inherit the first but
// not the second.
func runSignal(args []string) error {
	if len(args) != 2 || args[1] == "" {
		return errUsage
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "SIG"))
	if sig == 0 {
		return fmt.Errorf("unknown signal %q", args[0])
	}
	pid, err := findDispatch("/proc", args[1])
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

func findDispatch(proc, id string) (int, error) {
	want := []byte(DispatchEnv + "=" + id)
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !isTopProcess(proc, e.Name()) {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(proc, e.Name(), "environ"))
		if err != nil {
			continue // ended meanwhile, or another user's
		}
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(v, want) {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("no process of dispatch %s", id)
}

// isTopProcess tells whether the process was put into the container from
// outside, which shows as parent 0.
func isTopProcess(proc, pid string) bool {
	status, err := os.ReadFile(filepath.Join(proc, pid, "status"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("PPid:")); ok {
			return string(bytes.TrimSpace(rest)) == "0"
		}
	}
	return false
}
