//go:build unix

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
)

// sbx is a command that the user gives to sbx.
func (w *world) sbx(args ...string) *exec.Cmd {
	cmd := w.command("sbx", args...)
	cmd.Path, cmd.Err = filepath.Join(shared.double, "sbx"), nil
	return cmd
}

// letsThrough reports whether the microVM program's proxy lets a request of the
// sandbox through.
func (w *world) letsThrough(t *testing.T, target string) bool {
	t.Helper()
	allowed, err := sandboxcli.Request(t.Context(), w.double, w.driver, w.sandbox(t).Name, target)
	assert.NilError(t, err)
	return allowed
}

// The policy is kept by the program's own means, and what was refused is told.
func TestANetworkPolicyOfAMicroVM(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		if w.driver == config.DriverSbx {
			// Its balanced policy allows more, and cannot be narrowed.
			res := w.ralph(t, "task", "list").expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, `Error: the network policy "allowlist" cannot be kept with sbx: your own rules of sbx allow more`))
			assert.Check(t, is.Contains(res.stderr, "**.googleapis.com:443 (default-cloud)"))
			assert.Equal(t, len(w.sandboxes(t)), 0)
			w.set(t, func(s *sandboxcli.Settings) { s.PolicyInitialised = false })
			run(t, w.sbx("policy", "init", "deny-all")).expect(t, 0)
		}
		w.plan(t, task{ID: "slow", Title: "Wait for go", Steps: []string{"touch begun; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		for target, want := range map[string]bool{"far.example:443": false, "github.com:443": true, "github.com:22": false, "go.dev:443": true} {
			assert.Check(t, is.Equal(w.letsThrough(t, target), want), target)
		}
		w.letsThrough(t, "far.example:443")
		w.write(t, filepath.Join(w.repo, "go"), "")
		res := build.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "blocked: far.example:443 ×2, allow with: docker ralph network allow far.example\n"))
		assert.Check(t, is.Contains(res.stderr, "blocked: github.com:22 ×1, allow with: docker ralph network allow github.com:22\n"))
		assert.Check(t, is.Contains(w.ok(t, "network", "log"), "refused  far.example:443  "))

		// It changes at once, and the sandbox is the same.
		id := w.sandbox(t).ID
		w.ok(t, "network", "allow", "far.example")
		assert.Check(t, w.letsThrough(t, "far.example:443"))
		var list network.List
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "network", "ls", "--format", "json")), &list))
		assert.Equal(t, list.Policy, egress.Allowlist)
		found := map[string]network.Rule{}
		for _, rule := range list.Rules {
			found[rule.Host] = rule
		}
		assert.Equal(t, found["far.example"].Origin, "docker ralph network")
		assert.Equal(t, found["github.com"].Origin, "preset git")
		w.denyAgain(t)
		assert.Check(t, !w.letsThrough(t, "far.example:443"))
		assert.Equal(t, w.sandbox(t).ID, id)

		// A running sandbox keeps what it was made for.
		res = w.ralph(t, "--network", "deny", "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `no longer matches the configuration (network policy "deny" instead of "allowlist")`))
	})
}

// denyAgain takes a host back. Docker sandbox cannot be asked whether it has
// understood, so no agent is started in such a sandbox any more.
func (w *world) denyAgain(t *testing.T) {
	t.Helper()
	if w.driver == config.DriverSbx {
		w.ok(t, "network", "deny", "far.example")
		w.ok(t, "build")
		return
	}
	const stale = "docker sandbox was told to allow far.example:80 before"
	assert.Check(t, is.Contains(w.ralph(t, "network", "deny", "far.example").expect(t, 1).stderr, stale))
	w.plan(t, task{ID: "next", Title: "Never begun"})
	assert.Check(t, is.Contains(w.ralph(t, "build").expect(t, 1).stderr, stale))
	assert.Equal(t, w.statuses(t)["next"], "open")
}
