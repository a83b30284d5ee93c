package canary

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
)

// underWay counts parallel attempts behind the firewall. Dropped packets are never
// answered: when the firewall has dropped as many packets as there are attempts, the wait
// is over.
type underWay struct {
	waiting atomic.Int64 // pending attempts
	stopped atomic.Int64 // attempts that ended because their packet was dropped
}

// ends records the end of an attempt.
func (u *underWay) ends(err error) {
	if errors.Is(err, unix.EPERM) {
		u.stopped.Add(1) // first, so that it is always counted
	}
	u.waiting.Add(-1)
}

// oncePerAttempt is how long each attempt sends one packet only: TCP retransmits after a
// second.
const oncePerAttempt = 500 * time.Millisecond

// allDropped waits until the packets of all pending attempts are dropped, and reports whether
// they are. before is the number of dropped packets before the first attempt.
func (u *underWay) allDropped(ctx context.Context, before uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, oncePerAttempt)
	defer cancel()
	for {
		sent := uint64(max(0, u.waiting.Load())) + uint64(u.stopped.Load())
		dropped, err := firewall.Dropped()
		if err != nil {
			return false
		}
		if dropped-before >= sent {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}
