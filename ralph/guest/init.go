package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

var errExpired = codedError{wire.ExitDeadline, errors.New("stopping the sandbox: a run took longer than its time limit")}

// runInit is the init process of a container sandbox. It waits for a signal to stop,
// reaps zombies and runs the watchdog. When it exits, the kernel kills all other
// processes of the sandbox. It runs as another user than the agent, which therefore
// cannot stop or kill it.
//
// With the argument "proxy", it also forwards the ports of the sandbox's proxy to its
// sockets. It listens before anything else runs, so that no other process can take
// these ports.
func runInit(ctx context.Context, s streams, args []string) error {
	runtime.GOMAXPROCS(1)
	ReserveThreads(initThreads)
	switch {
	case len(args) == 1 && args[0] == "proxy":
		if err := forwardProxy(ctx, wire.ProxyAddress, wire.ProxyDir, wire.PortDNS, wire.ProxyPorts()...); err != nil {
			return err
		}
	case len(args) > 0:
		return errUsage
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	var expired <-chan struct{}
	if watchdog, err := listenWatchdog(ctx, watchdogAddress, alone); err == nil {
		expired = watchdog.expired
	} else {
		_, _ = fmt.Fprintln(s.stderr, "Warning:", err)
	}
	for {
		select {
		case <-expired:
			return errExpired
		case sig := <-signals:
			if sig != unix.SIGCHLD {
				// For the container's log.
				_, _ = fmt.Fprintf(s.stderr, "Sandbox stopped by signal: %s\n", sig)
				return nil
			}
			reap()
		}
	}
}

// initThreads covers all that init does concurrently: it could start no further
// threads once an agent has used up the process limit.
const initThreads = 8

// alone reports whether this is the only process.
func alone() bool {
	processes, err := sysinfo.Processes(procDir)
	return err == nil && len(processes) == 1
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
