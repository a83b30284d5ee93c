package guest

import (
	"runtime"
	"sync"
)

// ReserveThreads makes the Go runtime start enough threads for n concurrent blocking
// calls. The runtime keeps them. It aborts the program if it cannot start a thread later
// because an agent has used up the sandbox's process limit.
func ReserveThreads(n int) {
	n += runtime.GOMAXPROCS(0)
	release := make(chan struct{})
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-release
		})
	}
	started.Wait()
	close(release)
	ended.Wait()
}
