//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// catchBrokenPipe makes writing to a closed pipe an error instead of the end
// of the program, so that a task can still be released. Programs that are
// started do not inherit this.
func catchBrokenPipe() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}
