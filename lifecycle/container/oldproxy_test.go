package container_test

import (
	"context"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// After an upgrade, a command that runs keeps the proxy of the earlier version, and the first
// command afterwards replaces it. Not in parallel: another test's network with public addresses replaces all.
func TestUpgradeKeepsTheProxyOfARunningCommand(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s, api := newSuite(t, e), e.Client(t)
		sb, spec := isolated(t, s, egress.Allowlist, "allowed.example")
		proxy := sb.Name + ".egress"
		d := s.Driver.(*driver.Driver)
		up := func() string {
			t.Helper()
			_, err := ensure(t, &driver.Driver{API: d.API, Host: d.Host, StateDir: d.StateDir}, spec, false)
			assert.NilError(t, err)
			return containerID(t, api, proxy)
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ran := make(chan error, 1)
		go func() {
			_, err := d.Exec(ctx, sb, lifecycle.Process{ID: "loop", Args: []string{"sh", "-c", "touch running; until test -e over; do sleep 0.1; done"}, Dir: spec.Root})
			ran <- err
		}()
		sh(t, d, sb, spec, "until test -e running; do sleep 0.1; done")

		old := replaceByOtherVersion(t, api, proxy)
		assert.NilError(t, d.Unprepare(sb)) // as by another ralph
		assert.Equal(t, up(), old, "the proxy of a command that runs was replaced")
		assert.Equal(t, up(), old, "the second command replaced the proxy")

		sh(t, d, sb, spec, "touch over")
		assert.NilError(t, <-ran)
		current := up()
		assert.Assert(t, current != old, "the proxy of an earlier version stays for good")
		assert.Equal(t, up(), current)
	})
}

// replaceByOtherVersion recreates a proxy with the same program in another image, and returns
// its ID.
func replaceByOtherVersion(t *testing.T, api *client.Client, proxy string) (id string) {
	t.Helper()
	res, err := api.ContainerInspect(t.Context(), proxy, client.ContainerInspectOptions{})
	assert.NilError(t, err)
	committed, err := api.ContainerCommit(t.Context(), proxy, client.ContainerCommitOptions{NoPause: true})
	assert.NilError(t, err)
	t.Cleanup(func() {
		_, _ = api.ImageRemove(context.WithoutCancel(t.Context()), committed.ID, client.ImageRemoveOptions{Force: true})
	})
	remove(t, api, proxy)

	config := res.Container.Config
	config.Image, config.AttachStdin, config.OpenStdin = committed.ID, false, true
	config.StdinOnce = false
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: proxy, Config: config, HostConfig: res.Container.HostConfig})
	assert.NilError(t, err)
	_, err = api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	assert.NilError(t, err)
	return made.ID
}
