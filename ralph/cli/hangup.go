package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/docker-ralph/docker-ralph/wire"
)

// hearHangUp decides what the end of a terminal means. In a sandbox it is the
// connection from the host that was lost, and under nohup it is not ours: the
// loop goes on, and is followed by its log. Otherwise it is a signal like others.
func hearHangUp(signals chan<- os.Signal) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	unheard := make(chan os.Signal, 1)
	if dispatched() {
		signals = unheard // programs that are started do not inherit this
	}
	signal.Notify(signals, syscall.SIGHUP)
	return func() { signal.Stop(unheard) }
}

// dispatched says whether somebody outside of a sandbox has started us.
func dispatched() bool { return os.Getenv(wire.DispatchEnv) != "" }

// mayHangUp writes to a terminal, which may be gone.
type mayHangUp struct{ to io.Writer }

// Write implements [io.Writer].
func (m mayHangUp) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	if errors.Is(err, syscall.EIO) && dispatched() {
		return len(p), nil
	}
	return n, err
}
