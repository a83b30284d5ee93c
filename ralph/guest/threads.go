package guest

import (
	"runtime"
	"sync"
)

// ReserveThreads has Go's runtime start enough threads for n calls that block at the
// same time. It keeps them for as long as the program runs; otherwise it would start
// them when it needs them, and end the program where it cannot, because an agent has
// used up the sandbox's process limit.
func ReserveThreads(n int) {
	n += runtime.GOMAXPROCS(0)
	release := make(chan struct{})
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // each has a thread of its own
			defer runtime.UnlockOSThread()
			started.Done()
			<-release
		})
	}
	started.Wait()
	close(release)
	ended.Wait()
}
