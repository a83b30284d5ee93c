package container

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// networked is an engine on which networks can be made.
type networked struct{ API }

func (networked) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{Info: system.Info{DefaultRuntime: "runc", Architecture: "x86_64"}}, nil
}

func (networked) ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	return client.ImageInspectResult{}, nil
}

func (networked) ContainerCreate(context.Context, client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	return client.ContainerCreateResult{ID: "holder"}, nil
}

func (networked) NetworkCreate(context.Context, string, client.NetworkCreateOptions) (client.NetworkCreateResult, error) {
	return client.NetworkCreateResult{}, nil
}

func (networked) ContainerStart(context.Context, string, client.ContainerStartOptions) (client.ContainerStartResult, error) {
	return client.ContainerStartResult{}, nil
}

// crowded is an engine on which the first ranges of addresses are taken.
type crowded struct {
	networked
	taken   int
	subnets []netip.Prefix
	mu      sync.Mutex
	holders []netip.Addr // where those are that were not removed
	started []string
}

func (c *crowded) NetworkCreate(_ context.Context, _ string, opts client.NetworkCreateOptions) (client.NetworkCreateResult, error) {
	c.subnets = append(c.subnets, opts.IPAM.Config[0].Subnet)
	if len(c.subnets) <= c.taken {
		return client.NetworkCreateResult{}, errors.New("Pool overlaps with other one on this address space")
	}
	return client.NetworkCreateResult{}, nil
}

func (c *crowded) ContainerCreate(_ context.Context, opts client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders = append(c.holders, opts.NetworkingConfig.EndpointsConfig[opts.Name].IPAMConfig.IPv4Address)
	return client.ContainerCreateResult{ID: c.holders[len(c.holders)-1].String()}, nil
}

func (c *crowded) ContainerStart(_ context.Context, id string, _ client.ContainerStartOptions) (client.ContainerStartResult, error) {
	c.started = append(c.started, id)
	return client.ContainerStartResult{}, nil
}

func (c *crowded) ContainerRemove(_ context.Context, id string, _ client.ContainerRemoveOptions) (client.ContainerRemoveResult, error) {
	c.holders = slices.DeleteFunc(c.holders, func(a netip.Addr) bool { return a.String() == id })
	return client.ContainerRemoveResult{}, nil
}

// What holds a network is in it, whichever range of addresses that has got.
func TestPauseContainerJoinsTheNetwork(t *testing.T) {
	for _, taken := range []int{0, 1, 3} {
		api := &crowded{taken: taken}
		d := &Driver{API: api}
		spec := lifecycle.Spec{Name: "sb"}
		spec.Egress.Policy.Mode = egress.Deny
		n, h, err := d.createNetworkAndPause(t.Context(), spec)
		assert.NilError(t, err)
		assert.Equal(t, len(api.subnets), taken+1)
		assert.Assert(t, api.subnets[taken].Contains(n.agent))
		assert.Assert(t, slices.Equal(api.holders, []netip.Addr{n.agent}), "%v", api.holders)
		assert.Equal(t, h, n.agent.String())
		assert.DeepEqual(t, api.started, []string{h})
	}
}

func TestResolver(t *testing.T) {
	for _, tc := range []struct {
		runtime string
		mode    egress.Mode
		own     bool
	}{
		{"", egress.Allowlist, false},
		{"runc", egress.Deny, false},
		{"runsc", egress.Allowlist, true},
		{"kata", egress.Deny, true},
		{"runsc", egress.AllowAll, false},
		{"runsc", "", false},
	} {
		t.Run(tc.runtime+" "+string(tc.mode), func(t *testing.T) {
			d := &Driver{API: networked{}, StateDir: t.TempDir()}
			spec := lifecycle.Spec{Name: "sb", Runtime: tc.runtime}
			spec.Egress.Policy.Mode = tc.mode
			config, host, labels := &container.Config{Hostname: "sandbox"}, &container.HostConfig{}, map[string]string{}
			g := &prerequisites{}
			if tc.mode != "" {
				var err error
				g.network, g.holder, err = d.createNetworkAndPause(t.Context(), spec)
				assert.NilError(t, err)
			}
			_, err := d.joinNetwork(spec, g, config, host, labels)
			assert.NilError(t, err)
			assert.Equal(t, host.NetworkMode == "container:holder", tc.mode != "" && (tc.runtime == "" || tc.runtime == "runc"))
			assert.Equal(t, config.Hostname == "", labels[labelNetns] != "", "a container has the name of who holds its network")
			if !tc.own {
				assert.Equal(t, len(host.Mounts), 0)
				return
			}
			assert.Equal(t, len(host.Mounts), 1)
			m := host.Mounts[0]
			assert.Equal(t, m.Target, "/etc/resolv.conf")
			assert.Assert(t, m.ReadOnly)
			assert.Assert(t, len(host.DNS) == 1 && host.DNS[0] == netip.MustParseAddr(labels[labelProxy]))
			content, err := os.ReadFile(m.Source)
			assert.NilError(t, err)
			assert.Equal(t, string(content), "nameserver "+labels[labelProxy]+"\n")
		})
	}
}
