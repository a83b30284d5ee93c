//go:build unix

package plugin

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/docker/cli/cli/streams"
)

// notifyResized tells when the terminal's size has changed.
func notifyResized(*streams.Out) <-chan struct{} {
	changed := make(chan struct{}, 1)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for range signals {
			select {
			case changed <- struct{}{}:
			default: // one that is waiting covers this one
			}
		}
	}()
	return changed
}
