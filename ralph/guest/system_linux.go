package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// system runs the programs of the sandbox as root.
type system struct {
	ctx context.Context
	// lock is the standard input of each program, which keeps it locked. It is
	// empty. Other open files would not get through sudo.
	lock *os.File
}

// script runs lines of shell that stop at the first error. The folders' parents
// belong to root, so that only its own programs can do it.
func (s system) script(what, lines string, args ...string) error {
	command := append([]string{"sh", "-euc", "umask 022; " + lines, "sh"}, args...)
	if os.Getuid() != 0 {
		if _, err := exec.LookPath("sudo"); err != nil {
			return fmt.Errorf("%s: root is needed, and there is no sudo. Use an image that has sudo, or whose user is root", what)
		}
		command = append([]string{"sudo", "-n"}, command...)
	}
	cmd := exec.CommandContext(s.ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.WaitDelay = s.lock, time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(string(said)))
	}
	return nil
}
