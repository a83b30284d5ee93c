package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// ownerTarget is a target on a machine whose "docker sandbox" lists one microVM.
func ownerTarget(t *testing.T, listed string) (Target, host.Host) {
	t.Helper()
	h := host.Host{StateDir: t.TempDir(), Docker: filepath.Join(t.TempDir(), "docker"), Stderr: os.Stderr}
	script := fmt.Sprintf("#!/bin/sh\necho '{\"vms\":[{\"name\":%q,\"status\":\"running\"}]}'\n", listed)
	assert.NilError(t, os.WriteFile(h.Docker, []byte(script), 0o755))
	target := Target{wt: gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}}
	target.name, target.Kind = "box", config.DriverContainer
	target.spec = lifecycle.Spec{Name: "box", Scope: target.wt.Scope, Root: target.wt.Root, Clone: true}
	return target, h
}

func TestNoCloneOfABranchWithAMicroVM(t *testing.T) {
	for _, tc := range []struct{ name, listed, scope, err string }{
		{name: "without one", listed: "other"},
		{name: "with one", listed: "box", scope: "main", err: "branch main has the microVM box"},
		{name: "with one that was removed by hand", listed: "other", scope: "main"},
		{name: "of another branch with its name", listed: "box", scope: "dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target, h := ownerTarget(t, tc.listed)
			if tc.scope != "" {
				content := fmt.Sprintf(`{"name":"box","created":true,"scope":{"Repo":"a/b","Branch":%q},"root":%q}`, tc.scope, target.wt.Root)
				assert.NilError(t, scopes.Section[json.RawMessage](microvm.DockerSandbox).Write(h.StateDir, "box", json.RawMessage(content)))
			}
			err := target.checkOwner(t.Context(), h)
			if tc.err != "" {
				assert.Error(t, err, tc.err)
			} else {
				assert.NilError(t, err)
			}
		})
	}
}

func TestNoMicroVMOfABranchWithAClone(t *testing.T) {
	clone, h := ownerTarget(t, "other")
	assert.NilError(t, scopes.Section[json.RawMessage]("container").Write(h.StateDir, "box", json.RawMessage("{}")))
	git := scopes.Path(h.StateDir, "box", "git")
	assert.NilError(t, os.MkdirAll(git, 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join(git, "state.json"), []byte(`{"clone":true}`), 0o600))
	ephemeral, vm, again := clone, clone, clone
	vm.spec.Clone, vm.Kind = false, microvm.DockerSandbox
	ephemeral.spec.Ephemeral, ephemeral.Kind = true, vm.Kind
	again.spec.Clone = false // it replaces the clone
	assert.Error(t, vm.checkOwner(t.Context(), h), "branch main has the container box")
	for _, other := range []Target{ephemeral, again, clone} {
		assert.NilError(t, other.checkOwner(t.Context(), h))
	}
}
