package sandboxcli_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
)

// The precedence is DOC S15.
func TestRequestsToTheProxyOfThePlugin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.plugin = true
	r.create(t, "box")
	reaches := func(target string) bool {
		allowed, err := sandboxcli.Request(t.Context(), r.Dir, "docker-sandbox", "box", target)
		assert.NilError(t, err)
		return allowed
	}
	assert.Check(t, reaches("a.example:443"), "it is open at first")
	r.ok(t, "network", "proxy", "box", "--policy", "deny", "--allow-host", "example.com:443", "--allow-host", "*.example.com",
		"--block-host", "evil.example.com", "--allow-host", "evil.example.com:8443", "--block-host", "*.deep.example.com:443")
	for target, want := range map[string]bool{
		"a.example:443": false, "example.com:443": true, "example.com:80": false, "x.example.com:22": true, "x.y.example.com:443": true,
		"evil.example.com:443": false, "evil.example.com:8443": true, "x.deep.example.com:443": false, "x.deep.example.com:80": true,
	} {
		assert.Check(t, is.Equal(reaches(target), want), target)
	}
	r.ok(t, "stop", "box")
	assert.Equal(t, r.run(t, "", "network", "proxy", "box", "--policy", "allow").code, 1, "it has to run")

	var log struct {
		Blocked []struct {
			Host    string
			Sandbox string `json:"vm_name"`
		} `json:"blocked_hosts"`
	}
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "network", "log", "--json")), &log))
	assert.Equal(t, len(log.Blocked), 4)
	assert.Equal(t, log.Blocked[0].Sandbox, "box")
	_, err := sandboxcli.Request(t.Context(), r.Dir, "docker-sandbox", "nobody", "a.example:443")
	assert.ErrorContains(t, err, "not found")
}

func TestRulesUnderAnOrganisation(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.Governed = true })
	r.create(t, "box")
	r.ok(t, "policy", "allow", "network", "--sandbox", "box", "a.example")
	r.ok(t, "policy", "deny", "network", "--sandbox", "box", "b.example")
	assert.Check(t, !is.Contains(r.ok(t, "policy", "ls", "box", "--json"), "a.example")().Success())
	assert.Check(t, is.Contains(r.ok(t, "policy", "ls", "box", "--json"), "b.example"))
	assert.Check(t, is.Contains(r.ok(t, "policy", "ls", "box", "--include-inactive", "--json"), "a.example"))
	allowed, err := sandboxcli.Request(t.Context(), r.Dir, "sbx", "box", "a.example:443")
	assert.NilError(t, err)
	assert.Check(t, !allowed)
	for range 2 {
		_, err = sandboxcli.Request(t.Context(), r.Dir, "sbx", "other", "a.example:443")
		assert.NilError(t, err)
	}
	var log struct {
		Blocked []struct {
			Count int `json:"count_since"`
		} `json:"blocked_hosts"`
	}
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "policy", "log", "other", "--json")), &log))
	assert.Equal(t, len(log.Blocked), 1, "those of the other one are not shown")
	assert.Equal(t, log.Blocked[0].Count, 2)
}
