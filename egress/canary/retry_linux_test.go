package canary

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire"
)

// lateContext ends a while after its deadline, as every context does, only later.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// What the last attempt says, which ends with the time for all of them, does not
// hide why the ones before it failed.
func TestEarlierErrorIsKept(t *testing.T) {
	own := netip.MustParseAddr("127.0.0.77")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", netip.AddrPortFrom(own, wire.PortProxy).String())
	assert.NilError(t, err, "the port has to be free")
	assert.NilError(t, l.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 2200*time.Millisecond)
	defer cancel()
	_, err = Question{Proxy: own}.connectWithRetry(lateContext{ctx, time.Now().Add(2 * time.Second)}, "target.example:443")
	assert.ErrorContains(t, err, "refused")
}
