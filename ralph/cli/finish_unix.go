//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// finishRequests receives requests to stop the loop after the current run.
func finishRequests() (requests <-chan os.Signal, stop func()) {
	requested := make(chan os.Signal, 1)
	signal.Notify(requested, syscall.SIGUSR1)
	return requested, func() { signal.Stop(requested) }
}
