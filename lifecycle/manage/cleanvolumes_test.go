package manage

import (
	"bytes"
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// volumeEngine is an engine with one git volume.
type volumeEngine struct {
	host.API
	sandbox string
}

func (volumeEngine) DaemonHost() string { return "unix:///here" }

func (volumeEngine) VolumeInspect(context.Context, string, client.VolumeInspectOptions) (client.VolumeInspectResult, error) {
	return client.VolumeInspectResult{}, errdefs.ErrNotFound
}

func (e volumeEngine) VolumeList(context.Context, client.VolumeListOptions) (res client.VolumeListResult, err error) {
	res.Items = []volume.Volume{{Name: "ralph-git-" + e.sandbox, Labels: map[string]string{engine.LabelCreatedBy: engine.CreatedBy, engine.LabelSandbox: e.sandbox}}}
	return res, nil
}

// That the commits of a sandbox are fetched says nothing about a volume with its name on another engine.
func TestCleanKeepsVolumesOfOtherSandboxes(t *testing.T) {
	here, big := host.Engine{Context: "here", Host: "unix:///here"}, host.Engine{Context: "big", Host: "ssh://big"}
	for _, tc := range []struct {
		recorded host.Engine
		removed  int
	}{{here, 1}, {big, 0}} {
		h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
		assert.NilError(t, gitsync.Abandon(h.StateDir, "box"))
		assert.NilError(t, h.SaveEngine("box", host.EngineRecord{Engine: tc.recorded}))
		on := &repositoryVolumes{engine: here, driver: h.ContainerDriver(volumeEngine{sandbox: "box"})}
		assert.NilError(t, (&cleanup{host: h}).addVolumes(t.Context(), on, "/src"))
		assert.Equal(t, len(on.list), tc.removed, tc.recorded)
	}
}
