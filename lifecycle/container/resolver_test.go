package container

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
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

func TestWhoKnowsNames(t *testing.T) {
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
			var n sandboxNetwork
			if tc.mode != "" {
				var err error
				n, err = d.makeNetwork(t.Context(), spec)
				assert.NilError(t, err)
			}
			_, err := d.join(t.Context(), spec, n, config, host, labels)
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
