package commits

import (
	"fmt"
	"sync"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// sendingEvery is how often the progress of sending commits is reported, and after what time
// for the first time.
const sendingEvery = 2 * time.Second

// sending returns a function that reports the progress of sending commits to a sandbox.
func sending(h host.Host, name string) func(bytes int64) {
	var mu sync.Mutex
	var began, last time.Time
	return func(bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if began.IsZero() {
			began, last = now, now
		}
		if now.Sub(last) < sendingEvery {
			return
		}
		last = now
		rate := float64(bytes) / now.Sub(began).Seconds()
		h.Report(fmt.Sprintf("Sending commits to the sandbox %s: %s (%s/s)", name, units.HumanSize(float64(bytes)), units.HumanSize(rate)))
	}
}
