package container_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// The first command that uses the network starts the proxy. Until then, the sandbox has no
// way out.
func TestProxyIsStartedByTheFirstCommandThatNeedsIt(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api, m, left := newSuite(t, e), e.Client(t), newMachine(t, e), tap(t)
		online := s.NewSpec(t)
		online.Egress.Policy.Mode = egress.Allowlist
		offline := online
		offline.Offline = true
		sb := s.UpWith(t, offline)
		d := s.Driver.(*driver.Driver)
		hasProxy := func() bool {
			t.Helper()
			parts, err := d.Parts(t.Context(), sb)
			assert.NilError(t, err)
			_, inspectErr := api.ContainerInspect(t.Context(), sb.Name+".egress", client.ContainerInspectOptions{})
			assert.Equal(t, len(parts) == 2, inspectErr == nil, "%v, %v", parts, inspectErr)
			return inspectErr == nil
		}
		ready := func(spec lifecycle.Spec) bool {
			t.Helper()
			now, err := d.Lookup(t.Context(), sb.Name)
			assert.NilError(t, err)
			return d.Ready(now, spec)
		}
		up := func(spec lifecycle.Spec) {
			t.Helper()
			now, err := ensure(t, d, spec, false)
			assert.NilError(t, err)
			assert.Equal(t, now.ID, sb.ID)
		}
		proxied := "web " + sb.Proxy + " GET http://blocked.example/"

		assert.Check(t, !hasProxy())
		assert.Check(t, ready(offline) && !ready(online))
		secret := nonce()
		out := try(t, d, sb, offline, append(waysOut(m, secret), proxied)...)
		assert.Check(t, is.Len(open(out), 0))
		assert.Check(t, is.Contains(out, proxied+": \n"))
		assert.Check(t, !m.udp.contains(secret) && !left.contains(secret))
		assert.ErrorContains(t, d.Decisions(t.Context(), sb, time.Time{}, false, t.Output()), "has no network log")

		assert.NilError(t, d.Stop(t.Context(), sb))
		up(offline)
		assert.Check(t, !hasProxy())

		up(online)
		assert.Check(t, hasProxy() && ready(offline) && ready(online))
		assert.Check(t, is.Contains(try(t, d, sb, online, proxied), "403 Forbidden"))

		remove(t, api, sb.Name+".egress")
		assert.Check(t, !ready(offline) && !ready(online))
		up(offline)
		assert.Check(t, !hasProxy() && ready(offline))
		up(online)
		assert.Check(t, hasProxy())

		remove(t, api, sb.Name+".egress")
		_, err := api.NetworkDisconnect(t.Context(), "none", client.NetworkDisconnectOptions{Container: sb.ID, Force: true})
		assert.NilError(t, err)
		_, err = api.NetworkConnect(t.Context(), "bridge", client.NetworkConnectOptions{Container: sb.ID})
		assert.NilError(t, err)
		_, err = ensure(t, d, offline, false)
		assert.ErrorContains(t, err, fmt.Sprintf("the sandbox %s is connected to the network bridge", sb.Name))
	})
}
