package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// errTimeUp is how a sandbox ends itself.
var errTimeUp = codedError{wire.ExitDeadline, errors.New("a run of the agent took longer than its time limit, and nothing in the sandbox has ended it: the sandbox is stopped")}

// runInit is the first process of a container sandbox. It waits to be told to
// stop, and it takes in the processes that agents leave behind, so that they do
// not pile up as zombies. It also keeps the time of runs that nobody else ends.
// When it ends, the kernel ends every other process of the sandbox. It runs
// under another user than the agent, who can therefore neither stop nor kill it.
func runInit(ctx context.Context, s streams) error {
	runtime.GOMAXPROCS(1)
	ReserveThreads(initThreads)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	var over <-chan struct{}
	if clock, err := listenDeadline(ctx, alone); err == nil {
		over = clock.Over()
	} else {
		_, _ = fmt.Fprintln(s.stderr, "Warning:", err)
	}
	for {
		select {
		case <-over:
			return errTimeUp
		case sig := <-signals:
			if sig != unix.SIGCHLD {
				// The engine keeps it: whoever wonders why a sandbox has ended reads it there.
				_, _ = fmt.Fprintf(s.stderr, "The sandbox was told to stop: %s\n", sig)
				return nil
			}
			reap()
		}
	}
}

// initThreads is enough for all that the first process does at the same time: an
// agent that has used up the process limit leaves no room for another thread.
const initThreads = 8

// alone reports whether this is the only process.
func alone() bool {
	entries, err := os.ReadDir(procDir)
	if err != nil {
		return false
	}
	count := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			count++
		}
	}
	return count == 1
}

func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
