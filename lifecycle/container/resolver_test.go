package container

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/wire"
)

// networked is an engine on which networks can be made.
type networked struct{ engine.API }

func (networked) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{Info: system.Info{DefaultRuntime: "runc", Architecture: "x86_64"}}, nil
}

func (networked) ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	return client.ImageInspectResult{}, nil
}

func (networked) NetworkCreate(context.Context, string, client.NetworkCreateOptions) (client.NetworkCreateResult, error) {
	return client.NetworkCreateResult{}, nil
}

func (networked) NetworkList(context.Context, client.NetworkListOptions) (client.NetworkListResult, error) {
	return client.NetworkListResult{Items: []network.Summary{{Network: network.Network{Name: egressNetwork, ID: "egress", Labels: map[string]string{engine.LabelCreatedBy: engine.CreatedBy}}}}}, nil
}

func (networked) VolumeCreate(_ context.Context, opts client.VolumeCreateOptions) (client.VolumeCreateResult, error) {
	return client.VolumeCreateResult{Volume: volume.Volume{Name: opts.Name, Labels: opts.Labels}}, nil
}

// crowded is an engine on which the first ranges of addresses are taken.
type crowded struct {
	networked
	taken   int
	subnets []netip.Prefix
}

func (c *crowded) NetworkCreate(_ context.Context, _ string, opts client.NetworkCreateOptions) (client.NetworkCreateResult, error) {
	c.subnets = append(c.subnets, opts.IPAM.Config[0].Subnet)
	if len(c.subnets) <= c.taken {
		return client.NetworkCreateResult{}, errors.New("Pool overlaps with other one on this address space")
	}
	return client.NetworkCreateResult{}, nil
}

func TestNetworkTakesAFreeRange(t *testing.T) {
	for _, taken := range []int{0, 1, 3} {
		api := &crowded{taken: taken}
		n, err := (&Driver{API: api}).createNetwork(t.Context(), lifecycle.Spec{Name: "sb"}, "", "sb.x")
		assert.NilError(t, err)
		assert.Equal(t, len(api.subnets), taken+1)
		assert.Assert(t, api.subnets[taken].Contains(n.agent) && api.subnets[taken].Contains(n.proxy))
	}
}

func TestIsolationByRuntimeAndPolicy(t *testing.T) {
	for _, tc := range []struct {
		runtime          string
		mode             egress.Mode
		network, mounted string
		err              string
	}{
		{"", egress.Allowlist, "none", wire.ProxyDir, ""},
		{"runc", egress.Deny, "none", wire.ProxyDir, ""},
		{"runsc", egress.Allowlist, "sb.", "/etc/resolv.conf", ""},
		{"kata", egress.Deny, "sb.", "/etc/resolv.conf", ""},
		{"runc", egress.AllowAll, egressNetwork, "", ""},
		{"runsc", egress.AllowAll, "", "", "its own network stack"},
	} {
		t.Run(tc.runtime+" "+string(tc.mode), func(t *testing.T) {
			d := &Driver{API: networked{}, StateDir: t.TempDir()}
			spec := lifecycle.Spec{Name: "sb", Runtime: tc.runtime}
			spec.Egress.Policy.Mode = tc.mode
			config, host, labels := &container.Config{}, &container.HostConfig{}, map[string]string{}
			i, err := d.isolate(t.Context(), spec, "")
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			i.apply(config, host, labels)
			assert.Assert(t, strings.HasPrefix(string(host.NetworkMode), tc.network), host.NetworkMode)
			if tc.mounted == "" {
				assert.Equal(t, len(host.Mounts), 0)
				return
			}
			m := host.Mounts[0]
			assert.Equal(t, m.Target, tc.mounted)
			assert.Assert(t, m.ReadOnly && len(host.Mounts) == 1)
			assert.Assert(t, len(host.DNS) == 1 && host.DNS[0] == netip.MustParseAddr(labels[labelProxy]))
			if tc.network == "none" {
				assert.DeepEqual(t, config.Cmd, []string{"proxy"})
				return
			}
			content, err := os.ReadFile(m.Source)
			assert.NilError(t, err)
			assert.Equal(t, string(content), "nameserver "+labels[labelProxy]+"\n")
		})
	}
}
