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
		{name: "with one", listed: "box", scope: "main", err: "the backlog of branch main is in the microVM box"},
		{name: "with one that was removed by hand", listed: "other", scope: "main"},
		{name: "of another branch with its name", listed: "box", scope: "dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target, h := ownerTarget(t, tc.listed)
			if tc.scope != "" {
				content := fmt.Sprintf(`{"name":"box","created":true,"scope":{"Repo":"a/b","Branch":%q},"root":%q}`, tc.scope, target.wt.Root)
				assert.NilError(t, scopes.Section[json.RawMessage](microvm.DockerSandbox).Write(h.StateDir, "box", json.RawMessage(content)))
			}
			for _, check := range []func() error{
				func() error { return target.checkOwner(t.Context(), h) },
				func() error { return target.checkUnused(t.Context(), h) },
			} {
				if tc.err != "" {
					assert.Error(t, check(), tc.err)
				} else {
					assert.NilError(t, check())
				}
			}
		})
	}
}

func TestNoOtherSandboxOfABranchWithAClone(t *testing.T) {
	clone, h := ownerTarget(t, "other")
	sb := lifecycle.Sandbox{Name: "box", Root: clone.wt.Root, Clone: true}
	assert.NilError(t, clone.backlog(h).MoveIn(t.Context(), nil, sb, func() error { return clone.checkUnused(t.Context(), h) }))
	ephemeral, vm, again := clone, clone, clone
	ephemeral.spec.Clone, ephemeral.spec.Ephemeral, ephemeral.spec.Name = false, true, "box-abcdefgh"
	vm.spec.Clone, vm.Kind = false, microvm.DockerSandbox
	again.spec.Clone = false // it replaces the clone
	for _, other := range []Target{ephemeral, vm} {
		assert.Error(t, other.checkOwner(t.Context(), h), "the backlog of branch main is in the clone box")
	}
	assert.NilError(t, again.checkOwner(t.Context(), h))
	assert.NilError(t, clone.checkOwner(t.Context(), h))
}

func TestBacklogInUseDoesNotMoveIntoAClone(t *testing.T) {
	clone, h := ownerTarget(t, "other")
	r := host.Record{ID: "x", Command: []string{"ralph", "build"}, Scope: clone.wt.Scope, Root: clone.wt.Root, Sandbox: "ralph-a-b-main-abcdefgh"}
	held, err := h.NewRecord(r)
	assert.NilError(t, err)
	sb := lifecycle.Sandbox{Name: "box", Root: clone.wt.Root, Clone: true}
	moveIn := func() error {
		return clone.backlog(h).MoveIn(t.Context(), nil, sb, func() error { return clone.checkUnused(t.Context(), h) })
	}
	assert.Error(t, moveIn(), `"ralph build" is using the backlog in the sandbox ralph-a-b-main-abcdefgh`)
	inside, err := clone.backlog(h).InSandbox(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, !inside)
	held.Done(nil)
	assert.NilError(t, moveIn())
}
