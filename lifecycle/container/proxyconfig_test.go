package container_test

import (
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// The configuration of a proxy is compared when its sandbox is started, not while it runs.
func TestProxyIsRecreatedForAChangedConfiguration(t *testing.T) {
	// Not beside tests that create a network with public addresses, for which proxies are
	// recreated too.
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s, api := newSuite(t, e), e.Client(t)
		sb, spec := isolated(t, s, egress.Allowlist, "allowed.example")
		proxy := sb.Name + ".egress"
		made := containerID(t, api, proxy)
		// Every command is another program.
		program := func() *driver.Driver {
			d := s.Driver.(*driver.Driver)
			return &driver.Driver{API: d.API, Host: d.Host, StateDir: d.StateDir}
		}
		up := func(spec lifecycle.Spec) string {
			t.Helper()
			_, err := ensure(t, program(), spec, false)
			assert.NilError(t, err)
			return containerID(t, api, proxy)
		}
		stop := func() {
			t.Helper()
			assert.NilError(t, program().Stop(t.Context(), sb))
		}
		behind := spec
		behind.Egress.Upstream.HTTPS = "http://user:secret@proxy.example:3128"

		assert.Equal(t, up(behind), made, "a proxy was taken from a sandbox that runs")
		stop()
		assert.Equal(t, up(spec), made, "nothing has changed")
		stop()
		second := up(behind)
		assert.Assert(t, second != made, "the host's proxy has changed")
		stop()
		assert.Equal(t, up(behind), second)

		timeout := 0
		_, err := api.ContainerStop(t.Context(), sb.ID, client.ContainerStopOptions{Timeout: &timeout})
		assert.NilError(t, err)
		amended := behind
		amended.Egress.Amended = spec.Egress.Policy
		amended.Egress.Amended.Rules = nil
		third := up(amended)
		assert.Assert(t, third != second, "a rule was taken back while it was stopped by hand")
		assert.Equal(t, up(amended), third)
	})
}

func containerID(t *testing.T, api *client.Client, name string) string {
	t.Helper()
	res, err := api.ContainerInspect(t.Context(), name, client.ContainerInspectOptions{})
	assert.NilError(t, err)
	return res.Container.ID
}
