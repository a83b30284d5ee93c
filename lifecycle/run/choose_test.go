package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Without an engine, the error names each driver that was tried, with the reason.
func TestNoDriverWorks(t *testing.T) {
	missing := host.LeftOut{Driver: "docker-sandbox", Err: fmt.Errorf("%w: no such plugin", lifecycle.ErrNotInstalled)}
	for _, tc := range []struct {
		name    string
		leftOut []host.LeftOut
		err     string
		hints   []string
	}{
		{"configured", nil, "failed to connect: EOF", nil},
		{
			"nothing is installed",
			[]host.LeftOut{{Driver: "sbx", Err: hint.Wrap(lifecycle.ErrNotInstalled, "install it")}, missing},
			"failed to connect: EOF", nil,
		},
		{
			"too old",
			[]host.LeftOut{{Driver: "sbx", Err: hint.Wrap(errors.New("sbx has version 0.30.1"), "update it")}, missing},
			"no driver works: sbx: sbx has version 0.30.1; docker-sandbox: not installed; container: failed to connect: EOF",
			[]string{"sbx: update it", "start the Docker Engine or Docker Desktop"},
		},
		{
			"not signed in, and a daemon that does not run",
			[]host.LeftOut{{Driver: "sbx", Err: hint.Wrap(errors.New("sbx is not logged in to Docker"), "run %q", "sbx login")}, {Driver: "docker-sandbox", Err: errors.New("cannot connect to its daemon")}},
			"no driver works: sbx: sbx is not logged in to Docker; docker-sandbox: cannot connect to its daemon; container: failed to connect: EOF",
			[]string{`sbx: run "sbx login"`, "start the Docker Engine or Docker Desktop"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := Choice{leftOut: tc.leftOut, Request: projectimage.Request{Agent: "shell"}}
			err := atContainer(t.Context(), host.Host{}, &at, func(string) (host.API, host.Engine, error) {
				return nil, host.Engine{}, fmt.Errorf("failed to connect: %w", io.EOF)
			})
			assert.Error(t, err, tc.err)
			assert.DeepEqual(t, hint.Of(err), tc.hints)
		})
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
				content := fmt.Sprintf(`{"name":%q,"created":true,"scope":{"Repo":"a/b","Branch":"main"},"root":%q}`, name, wt.Root)
				assert.NilError(t, scopes.Section[json.RawMessage](microvm.DockerSandbox).Write(h.StateDir, name, json.RawMessage(content)))
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
