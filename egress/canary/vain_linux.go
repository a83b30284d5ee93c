package canary

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
)

// underWay counts attempts that are made at once behind the firewall. What the
// firewall has dropped is never answered: when it has dropped as many packets as
// attempts have sent or may have, there is nothing to wait for.
type underWay struct {
	waiting atomic.Int64 // attempts that have not ended
	stopped atomic.Int64 // those that ended because the firewall dropped what they sent
}

// ends notes the end of an attempt.
func (u *underWay) ends(err error) {
	if errors.Is(err, unix.EPERM) {
		u.stopped.Add(1) // first, so that it is never missing in both
	}
	u.waiting.Add(-1)
}

// oncePerAttempt is for how long every attempt sends one packet only: TCP sends
// its first one again after a second.
const oncePerAttempt = 500 * time.Millisecond

// inVain waits until all attempts that wait do so in vain, and returns whether
// that is so. The firewall had dropped so much before the first of them.
func (u *underWay) inVain(ctx context.Context, before uint64) bool {
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
