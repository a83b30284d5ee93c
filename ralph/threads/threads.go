// Package threads keeps threads of the operating system in reserve. Go's runtime
// starts them when it needs them and ends the program where it cannot, e.g.
// because an agent has used up the sandbox's process limit.
package threads

import (
	"runtime"
	"sync"
)

// Reserve has the runtime start enough threads for n calls that block at the
// same time. It keeps them for as long as the program runs.
func Reserve(n int) {
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
