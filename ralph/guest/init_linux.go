package guest

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// runInit is the first process of a container sandbox. It does nothing but
// wait to be told to stop, and it takes in the processes that agents leave
// behind, so that they do not pile up as zombies. When it ends, the kernel
// ends every other process of the sandbox. It runs under another user than
// the agent, who can therefore neither stop nor kill it.
func runInit([]string) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	for sig := range signals {
		if sig != unix.SIGCHLD {
			return nil
		}
		reap()
	}
	return nil
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
