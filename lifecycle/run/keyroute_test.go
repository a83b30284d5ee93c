package run

import (
	"bytes"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

func TestKeysStayWithTheProxy(t *testing.T) {
	set := map[string]string{
		"ANTHROPIC_API_KEY": "sk-a", "GEMINI_API_KEY": "sk-g", "OPENAI_API_KEY": "sk-o", "OPENAI_BASE_URL": "http://10.1.2.3/v1", "MINE": "m",
	}
	for _, tc := range []struct {
		name, agent, kind string
		mode              egress.Mode
		cloud             bool
		routes, exclusive int
		inside, warning   string
	}{
		{name: "without a policy", agent: "claude", inside: "ANTHROPIC_API_KEY=sk-a"},
		{name: "microVM", agent: "gemini", kind: config.DriverSbx, mode: egress.Allowlist},
		{name: "claude", agent: "claude", mode: egress.Allowlist, routes: 1},
		{name: "claude, deny", agent: "claude", mode: egress.Deny, routes: 1, exclusive: 1},
		{name: "claude in a cloud", agent: "claude", mode: egress.Allowlist, cloud: true},
		{
			name: "claude, allow-all", agent: "claude", mode: egress.AllowAll, inside: "ANTHROPIC_API_KEY=sk-a",
			warning: "Warning: ANTHROPIC_API_KEY goes into the sandbox, where the agent can read it: with the network policy \"allow-all\" there is no proxy to add it to requests\n",
		},
		{name: "codex", agent: "codex", mode: egress.Allowlist, routes: 1},
		{
			name: "gemini", agent: "gemini", mode: egress.Deny, inside: "GEMINI_API_KEY=sk-g",
			warning: "Warning: GEMINI_API_KEY goes into the sandbox, where the agent can read it: the proxy cannot add it to requests of gemini\n",
		},
		{name: "shell", agent: "shell", mode: egress.Deny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{Stderr: &stderr, LookupEnv: func(name string) (string, bool) { v, ok := set[name]; return v, ok }}
			var cfg config.Effective
			cfg.Agent.Name, cfg.Env.Pass = tc.agent, []string{"MINE"}
			in := Target{Choice: Choice{Backend: host.Backend{Kind: config.DriverContainer}}, wt: gitrepo.Worktree{Config: userConfig("A", "a@e")}, cfg: cfg}
			if tc.kind != "" {
				in.Kind = tc.kind
			}
			in.spec.Egress.Policy.Mode = tc.mode
			in.opts.Command = host.BuildCommand
			if tc.cloud {
				in.cloud = []string{"AWS_REGION=eu-west-1"}
			}
			keys, err := routeKeys(t.Context(), h, in)
			assert.NilError(t, err)
			routes, _ := Ready{keys: keys}.routes()
			with := in.spec
			with.Egress.Routes = routes
			assert.Equal(t, with.Settings(), in.spec.Settings(), "keys take no new sandbox")
			assert.Equal(t, stderr.String(), tc.warning)
			exclusive := 0
			for _, r := range routes {
				if r.Exclusive {
					exclusive++
				}
			}
			assert.Equal(t, len(routes), tc.routes)
			assert.Equal(t, exclusive, tc.exclusive)
			if in.Kind != config.DriverContainer {
				assert.Assert(t, keys == nil)
				return
			}
			env, err := environment(t.Context(), h, in, keys)
			assert.NilError(t, err)
			assert.Check(t, is.Contains(env, "MINE=m"))
			for _, v := range []string{"ANTHROPIC_API_KEY=sk-a", "GEMINI_API_KEY=sk-g", "OPENAI_API_KEY=sk-o", "OPENAI_BASE_URL=http://10.1.2.3/v1"} {
				if v == tc.inside {
					assert.Check(t, is.Contains(env, v))
				} else {
					for _, has := range env {
						assert.Check(t, has != v)
					}
				}
			}
		})
	}
}
