package container

import (
	"context"
	"testing"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// described is an engine that says this of itself.
type described struct {
	engine.API
	info system.Info
}

func (d described) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{Info: d.info}, nil
}

func TestSigns(t *testing.T) {
	const local = "unix:///var/run/docker.sock"
	for _, tc := range []struct {
		name, host, runtime string
		info                system.Info
		why                 string
	}{
		{"an engine on this machine", local, "", system.Info{OperatingSystem: "Debian GNU/Linux 13 (trixie)", DefaultRuntime: "runc"}, ""},
		{"crun", local, "crun", system.Info{}, ""},
		{"an engine by TCP", "tcp://127.0.0.1:2375", "", system.Info{}, "by a Linux engine"},
		{"Docker Desktop", "unix:///home/una/.docker/desktop/docker.sock", "", system.Info{OperatingSystem: "Docker Desktop"}, "by Docker Desktop"},
		{"gVisor", local, "runsc", system.Info{DefaultRuntime: "runc"}, "with this container runtime"},
		{"gVisor by default", local, "", system.Info{DefaultRuntime: "runsc"}, "with this container runtime"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &Driver{API: described{info: tc.info}, Host: tc.host}
			why, err := d.Signs(t.Context(), tc.runtime)
			assert.NilError(t, err)
			if tc.why == "" {
				assert.Equal(t, why, "")
				return
			}
			assert.Check(t, is.Contains(why, tc.why))
		})
	}
}
