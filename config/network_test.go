package config

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

func TestPolicy(t *testing.T) {
	e, err := Load(Sources{
		Root:      write(t, "ralph.toml", "[sandbox.network]\nallowed = [\"A.example.\", \"b.example:8443\"]\n"),
		UserDir:   write(t, "config.toml", "[agent]\nname = \"claude\"\n[sandbox.network]\nallowed = [\"user.example\"]\npolicy = \"allowlist\"\npresets = [\"agent\"]\n"),
		Overrides: Overrides{Allow: []string{"flag.example"}},
	})
	assert.NilError(t, err)
	policy, err := e.Policy()
	assert.NilError(t, err)
	assert.Equal(t, policy.Mode, egress.Allowlist)
	for host, origin := range map[string]string{
		"a.example": "ralph.toml:2", "user.example": "config.toml:4", "flag.example": "--allow", "api.anthropic.com": "preset agent (claude)",
	} {
		verdict := policy.Decide(host, 443)
		assert.Check(t, verdict.Allowed, host)
		assert.Check(t, is.Contains(verdict.Why, origin))
	}
	assert.Check(t, policy.Decide("b.example", 8443).Allowed)
	for _, host := range []string{"b.example", "github.com", "api.openai.com", "other.example"} {
		assert.Check(t, !policy.Decide(host, 443).Allowed, host)
	}
}

func TestPolicyByDefault(t *testing.T) {
	for _, over := range []Overrides{{}, {Allow: []string{"a.example"}}} {
		e, err := Load(Sources{Overrides: over})
		assert.NilError(t, err)
		policy, err := e.Policy()
		assert.NilError(t, err)
		assert.Equal(t, policy.Mode, egress.Allowlist)
		assert.Check(t, policy.Decide("github.com", 443).Allowed)
		assert.Check(t, is.Equal(policy.Decide("a.example", 443).Allowed, len(over.Allow) > 0))
		assert.Check(t, !policy.Decide("b.example", 443).Allowed)
	}
}

func TestPolicyOfFlagsAndEnvironment(t *testing.T) {
	e, err := Load(Sources{
		Getenv:    env(map[string]string{"RALPH_NETWORK": "allow-all", "RALPH_ALLOW": "a.example, b.example", "RALPH_RUNTIME": "runsc"}),
		Overrides: Overrides{Network: ptr("deny")},
	})
	assert.NilError(t, err)
	assert.Equal(t, e.Sandbox.Network.Policy, egress.Deny)
	assert.DeepEqual(t, e.Sandbox.Network.Allowed, []string{"a.example", "b.example"})
	assert.Equal(t, e.Sandbox.Runtime, "runsc")
	policy, err := e.Policy()
	assert.NilError(t, err)
	assert.Check(t, !policy.Decide("a.example", 443).Allowed)
	assert.Check(t, policy.Decide("api.anthropic.com", 443).Allowed)

	_, err = Load(Sources{Overrides: Overrides{Network: ptr("open")}})
	assert.ErrorContains(t, err, "--network")
	_, err = Load(Sources{Overrides: Overrides{Allow: []string{"a b"}}})
	assert.ErrorContains(t, err, "--allow")
}

func TestNetworkConfigured(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sources Sources
		want    bool
	}{
		{name: "nothing"},
		{name: "another key", sources: Sources{Getenv: env(map[string]string{"RALPH_AGENT": "codex"})}},
		{name: "flag", sources: Sources{Overrides: Overrides{Network: ptr("allowlist")}}, want: true},
		{name: "host", sources: Sources{Overrides: Overrides{Allow: []string{"a.example"}}}, want: true},
		{name: "variable", sources: Sources{Getenv: env(map[string]string{"RALPH_NETWORK": "deny"})}, want: true},
		{name: "repository", sources: Sources{Root: write(t, "ralph.toml", "[sandbox.network]\npolicy = \"deny\"\n")}, want: true},
		{name: "presets", sources: Sources{UserDir: write(t, "config.toml", "[sandbox.network]\npresets = []\n")}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := Load(tc.sources)
			assert.NilError(t, err)
			assert.Equal(t, e.NetworkConfigured(), tc.want)
		})
	}
}
