package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/docker-ralph/docker-ralph/wire"
)

// handleHangup sets the handling of SIGHUP. It is ignored under nohup, and in a sandbox,
// where it means that the host has disconnected; otherwise it interrupts the loop.
func handleHangup(signals chan<- os.Signal) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	ignored := make(chan os.Signal, 1)
	if dispatched() {
		signals = ignored // unlike signal.Ignore not inherited by child processes
	}
	signal.Notify(signals, syscall.SIGHUP)
	return func() { signal.Stop(ignored) }
}

// finishRequests receives requests to stop the loop after the current run.
func finishRequests() (requests <-chan os.Signal, stop func()) {
	requested := make(chan os.Signal, 1)
	signal.Notify(requested, syscall.SIGUSR1)
	return requested, func() { signal.Stop(requested) }
}

// catchBrokenPipe makes writing to a closed pipe return an error instead of killing the
// program, so that tasks can still be released. Child processes do not inherit it.
func catchBrokenPipe() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// dispatched reports whether the host started this process in a sandbox.
func dispatched() bool { return os.Getenv(wire.DispatchEnv) != "" }

// hangupWriter writes to a terminal. In a sandbox it ignores a disconnected terminal.
type hangupWriter struct{ to io.Writer }

// Write implements [io.Writer].
func (w hangupWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if errors.Is(err, syscall.EIO) && dispatched() {
		return len(p), nil
	}
	return n, err
}
