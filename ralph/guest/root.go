package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

// rootShell runs shell scripts as root.
type rootShell struct {
	ctx context.Context
	// lock is an empty file, passed as standard input to keep it locked: sudo
	// closes other inherited files.
	lock *os.File
}

// run runs a script that stops at the first error.
func (s rootShell) run(what, script string, args ...string) error {
	command := append([]string{"sh", "-euc", "umask 022; " + script, "sh"}, args...)
	if os.Getuid() != 0 {
		if _, err := exec.LookPath("sudo"); err != nil {
			return hint.Wrap(fmt.Errorf("%s: permission denied, and sudo is not installed", what), "use an image that has sudo, or that runs as root")
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
