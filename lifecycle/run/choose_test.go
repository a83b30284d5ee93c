package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Without an engine, the reason why no microVM was used is a hint, unless there is
// no such program at all.
func TestNoEngineAndNoMicroVM(t *testing.T) {
	none := func(string) (host.API, host.Engine, error) {
		return nil, host.Engine{}, errors.New("failed to connect")
	}
	for why, want := range map[string][]string{
		"":                          nil,
		"no sbx; no docker sandbox": nil,
		"sbx is not logged in to Docker; no docker sandbox": {
			"no microVM was used instead: sbx is not logged in to Docker",
		},
	} {
		at := Choice{why: why, Request: projectimage.Request{Agent: "shell"}}
		err := atContainer(host.Host{}, &at, none)
		assert.Error(t, err, "failed to connect")
		assert.DeepEqual(t, hint.Of(err), want)
	}
}

// A remote engine that the user has selected is not replaced by a microVM of this machine.
func TestRemoteEngineHasContainers(t *testing.T) {
	remote := host.Engine{Context: "big", Host: "ssh://big"}
	for _, tc := range []struct {
		name       string
		existing   bool
		engine     host.Engine
		selectedBy string
		want       string
	}{
		{"new", false, remote, "", config.DriverContainer},
		{"beside a microVM", true, remote, "--context", config.DriverContainer},
		{"current context, with a microVM", true, remote, "", microvm.DockerSandbox},
		{"local, with a microVM", true, host.Engine{Host: "unix:///run/docker.sock"}, "DOCKER_HOST", microvm.DockerSandbox},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{StateDir: t.TempDir(), Stderr: io.Discard, Selected: tc.engine, SelectedBy: tc.selectedBy}
			wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
			name, err := h.SandboxName(wt)
			assert.NilError(t, err)
			if tc.existing {
				dir := filepath.Join(h.StateDir, "microvms", microvm.DockerSandbox)
				assert.NilError(t, os.MkdirAll(dir, 0o700))
				content := fmt.Sprintf(`{"name":%q,"created":true,"scope":{"Repo":"a/b","Branch":"main"},"root":%q}`, name, wt.Root)
				assert.NilError(t, os.WriteFile(filepath.Join(dir, name+".json"), []byte(content), 0o600))
			}
			var cfg config.Effective
			cfg.Sandbox.Driver, cfg.Agent.Name = config.DriverAuto, "claude"
			at, _ := Choose(t.Context(), h, wt, cfg, projectimage.Request{Agent: "claude"}, func() (host.API, error) {
				return nil, errors.New("failed to connect")
			})
			assert.Equal(t, at.Kind, tc.want)
		})
	}
}
