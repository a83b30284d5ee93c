//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// finishRequests receives when somebody wants the loop to end after the run
// that is under way. Nothing that a user can type sends that signal.
func finishRequests() (requests <-chan os.Signal, stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	return asked, func() { signal.Stop(asked) }
}
