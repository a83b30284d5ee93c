package approval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// What an agent removes or loosens during a command holds until the user approves it, also if the command
// was killed.
func TestLoosenedSettingsNeedApproval(t *testing.T) {
	const checks = "[checks]\ncommands = [\"make test\", \"make lint\"]\n"
	for _, tc := range []struct{ name, before, after, key string }{
		{"deny removed", "[sandbox.network]\npolicy = \"deny\"\n", "", "sandbox.network.policy"},
		{"deny replaced", "[sandbox.network]\npolicy = \"deny\"\n", "[sandbox.network]\npolicy = \"allowlist\"\n", "sandbox.network.policy"},
		{"all presets again", "[sandbox.network]\npresets = []\n", "", "sandbox.network.presets"},
		{"a preset again", "[sandbox.network]\npresets = []\n", "[sandbox.network]\npresets = [\"git\"]\n", "sandbox.network.presets"},
		{"a host of a preset", "[sandbox.network]\npresets = []\n", "[sandbox.network]\npresets = []\nallowed = [\"github.com\"]\n", "sandbox.network.allowed"},
		{"checks removed", checks, "", "checks.commands"},
		{"a check removed", checks, "[checks]\ncommands = [\"make test\"]\n", "checks.commands"},
		{"a check replaced", checks, "[checks]\ncommands = [\"make test\", \"true\"]\n", "checks.commands"},
		{"the time of checks", "[checks]\ntimeout = \"1m\"\n", "[checks]\ntimeout = \"2m\"\n", "checks.timeout"},
		{"a limit removed", "[loop]\nmax_cost_usd = 5\n", "", "loop.max_cost_usd"},
		{"a limit raised", "[loop]\nmax_failures = 1\n", "[loop]\nmax_failures = 2\n", "loop.max_failures"},
		{"memory", "[sandbox.resources]\nmemory = \"1g\"\n", "[sandbox.resources]\nmemory = \"2g\"\n", "sandbox.resources.memory"},
		{"a network of builds", "[image]\nnetwork = \"none\"\n", "", "image.network"},
		{"permissions", "[agent]\npermissions = \"ask\"\n", "", "agent.permissions"},
		{"a clone", "[sandbox]\nworkspace = \"clone\"\n", "[sandbox]\nworkspace = \"live\"\n", "sandbox.workspace"},
		{"a microVM", "[sandbox]\ndriver = \"sbx\"\n", "", "sandbox.driver"},
		{"stricter", checks, checks + "[loop]\nmax_failures = 1\n[sandbox.network]\npolicy = \"deny\"\n", ""},
		{"what is not a restriction", "[agent]\nmodel = \"a\"\n", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wt := gitrepo.Worktree{Root: t.TempDir()}
			h := host.Host{StateDir: t.TempDir(), LookupEnv: func(string) (string, bool) { return "", false }}
			write := func(text string) {
				t.Helper()
				assert.NilError(t, os.WriteFile(filepath.Join(wt.Root, "ralph.toml"), []byte(text), 0o600))
			}
			configure := func() (config.Effective, error) { return Configure(t.Context(), h, wt, config.Overrides{}) }
			loosened := func(when string) {
				t.Helper()
				_, err := configure()
				var untrusted *config.UntrustedError
				if tc.key == "" {
					assert.NilError(t, err, when)
					return
				}
				assert.Assert(t, errors.As(err, &untrusted), when)
				assert.Equal(t, untrusted.Settings[0].Key, tc.key, when)
			}

			write(tc.before)
			cfg, err := configure()
			assert.NilError(t, err)
			release, err := Hold(h, wt, cfg)
			assert.NilError(t, err)
			write(tc.after)
			loosened("killed")
			assert.NilError(t, release())
			loosened("ended")
			write(tc.before)
			_, err = configure()
			assert.NilError(t, err, "restored")

			write(tc.after)
			h.Confirm = func(context.Context, string) (bool, error) { return true, nil }
			cfg, err = configure()
			assert.NilError(t, err, "approved")
			h.Confirm = nil
			release, err = Hold(h, wt, cfg)
			assert.NilError(t, err)
			assert.NilError(t, release())
			write(tc.before) // by the user, without a command
			_, err = configure()
			assert.NilError(t, err)
		})
	}
}
