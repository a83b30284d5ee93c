package container_test

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// earlier is an engine on which an earlier version has made what holds networks.
type earlier struct {
	driver.API
	image string
}

func (e earlier) ContainerCreate(ctx context.Context, opts client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	if slices.Contains(opts.Config.Entrypoint, "hold") {
		if _, err := e.ImageTag(ctx, client.ImageTagOptions{Source: opts.Config.Image, Target: e.image}); err != nil {
			return client.ContainerCreateResult{}, err
		}
		opts.Config.Image = e.image
	}
	return e.API.ContainerCreate(ctx, opts)
}

// What holds the network of a sandbox can stay there when this program is
// replaced by a newer one, whose wall is put in place then.
func TestWhatHoldsTheNetworkIsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
		d := s.Driver.(*driver.Driver)
		image := "ralph-test-egress:" + nonce()
		t.Cleanup(func() {
			_, err := e.Client(t).ImageRemove(context.WithoutCancel(t.Context()), image, client.ImageRemoveOptions{})
			assert.Check(t, err)
		})
		d.API = earlier{d.API, image}
		sb, spec := walled(t, s, egress.Deny)
		secret := nonce()
		assert.Check(t, is.Len(open(try(t, d, sb, spec, waysOut(m, secret)...)), 0))
		assert.Check(t, !m.udp.contains(secret) && !left.contains(secret), "the firewall is there")
	})
}

// Rules are changed by what is run beside the holder: itself it cannot.
func TestWhatHoldsTheNetworkHasNoRights(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api := newSuite(t, e), e.Client(t)
		sb, _ := walled(t, s, egress.Deny)
		out := beside(t, api, sb.Netns, "cat /proc/1/task/*/status")
		threads := strings.Count(out, "CapEff:")
		assert.Check(t, threads > 1, out)
		for _, none := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
			assert.Check(t, is.Equal(strings.Count(out, none), threads), none)
		}
	})
}

// watched is an engine that counts canaries that are run in processes of their own,
// and on which networks seem to come from nobody but the test.
type watched struct {
	driver.API
	mu       sync.Mutex
	canaries int
	networks *client.NetworkListResult
}

func (w *watched) ExecCreate(ctx context.Context, id string, opts client.ExecCreateOptions) (client.ExecCreateResult, error) {
	if slices.Contains(opts.Cmd, "canary") {
		w.mu.Lock()
		w.canaries++
		w.mu.Unlock()
	}
	return w.API.ExecCreate(ctx, id, opts)
}

func (w *watched) NetworkList(ctx context.Context, opts client.NetworkListOptions) (client.NetworkListResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(opts.Filters) > 0 {
		return w.API.NetworkList(ctx, opts)
	}
	if w.networks == nil {
		seen, err := w.API.NetworkList(ctx, opts)
		if err != nil {
			return seen, err
		}
		w.networks = &seen
	}
	return *w.networks, nil
}

// A new sandbox's wall is raised by what holds its network, and a process of its own
// does so where that does not count: something has changed since, or it was started
// again and has lost its rules.
func TestTheWallOfANewSandbox(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, tc := range []struct {
			name      string
			mode      egress.Mode
			meanwhile func(t *testing.T, w *watched, sb lifecycle.Sandbox)
			canaries  int
		}{
			{"behind a proxy", egress.Deny, nil, 0},
			{"open", egress.AllowAll, nil, 0},
			{"another network", egress.Deny, func(_ *testing.T, w *watched, _ lifecycle.Sandbox) {
				another := network.Summary{}
				another.ID, another.Name, another.Driver = "another", "another", "bridge"
				another.IPAM.Config = []network.IPAMConfig{{Subnet: netip.MustParsePrefix("10.99.0.0/24")}}
				w.networks.Items = append(w.networks.Items, another)
			}, 1},
			{"started again", egress.Deny, func(t *testing.T, _ *watched, sb lifecycle.Sandbox) {
				_, err := e.Client(t).ContainerRestart(t.Context(), sb.Netns, client.ContainerRestartOptions{})
				assert.NilError(t, err)
			}, 1},
			{"started again after it has answered", egress.AllowAll, func(t *testing.T, _ *watched, sb lifecycle.Sandbox) {
				awaitLog(t, e.Client(t), sb.Netns, "open")
				_, err := e.Client(t).ContainerRestart(t.Context(), sb.Netns, client.ContainerRestartOptions{})
				assert.NilError(t, err)
			}, 1},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
				d := s.Driver.(*driver.Driver)
				w := &watched{API: d.API}
				d.API = w
				spec := s.NewSpec(t)
				spec.Egress.Policy.Mode, spec.ReadOnly = tc.mode, true
				sb, err := d.Create(t.Context(), spec)
				assert.NilError(t, err)
				t.Cleanup(func() { assert.Check(t, d.Remove(context.WithoutCancel(t.Context()), sb)) })
				if tc.meanwhile != nil {
					tc.meanwhile(t, w, sb)
				}
				assert.NilError(t, d.Start(t.Context(), sb))
				assert.NilError(t, d.Prepare(t.Context(), sb, spec))
				assert.Equal(t, w.canaries, tc.canaries)
				if tc.mode == egress.AllowAll {
					return // what it reaches is tried elsewhere
				}
				secret := nonce()
				assert.Check(t, is.Len(open(try(t, d, sb, spec, waysOut(m, secret)...)), 0))
				assert.Check(t, !m.udp.contains(secret) && !left.contains(secret), "the firewall is there")
			})
		}
	})
}

// beside runs a command that sees the processes of a container.
func beside(t *testing.T, api *client.Client, id, script string) string {
	t.Helper()
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: engines.BaseImage(), Entrypoint: []string{"sh", "-c", script}, AttachStdout: true},
		HostConfig: &container.HostConfig{PidMode: container.PidMode("container:" + id), NetworkMode: "none"},
	})
	assert.NilError(t, err)
	t.Cleanup(func() { remove(t, api, made.ID) })
	conn, err := api.ContainerAttach(t.Context(), made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true})
	assert.NilError(t, err)
	defer conn.Close()
	_, err = api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	assert.NilError(t, err)
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, conn.Reader)
	assert.NilError(t, err)
	return out.String()
}
