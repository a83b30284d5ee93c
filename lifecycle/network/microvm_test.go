package network

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestPolicyAllowsModelEndpoints(t *testing.T) {
	for _, tc := range []struct {
		name, agent, address string
		mode                 egress.Mode
		host                 string
		port                 uint16
		said                 string
	}{
		{"a host", "claude", "https://llm.corp.example/anthropic", egress.Allowlist, "llm.corp.example", 443, ""},
		{"a port", "claude", "http://llm.corp.example:8080", egress.Deny, "llm.corp.example", 8080, ""},
		{"an address", "claude", "http://10.0.0.1:8080", egress.Allowlist, "", 0, "the network policy blocks the host of ANTHROPIC_BASE_URL"},
		{"of another agent", "codex", "https://llm.corp.example", egress.Allowlist, "", 0, ""},
		{"all is allowed", "claude", "https://llm.corp.example", egress.AllowAll, "", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			h := host.Host{Stderr: &said, LookupEnv: func(name string) (string, bool) {
				if name == "ANTHROPIC_BASE_URL" {
					return tc.address, true
				}
				return "", false
			}}
			policy, err := WithEndpoints(h, egress.Policy{Mode: tc.mode}, tc.agent)
			assert.NilError(t, err)
			assert.Equal(t, len(policy.Rules) > 0, tc.host != "")
			if tc.host != "" {
				assert.Equal(t, policy.Decide(tc.host, tc.port).Why, "ANTHROPIC_BASE_URL")
			}
			assert.Check(t, is.Contains(said.String(), tc.said))
			assert.Equal(t, said.Len() > 0, tc.said != "")
		})
	}
}

// The programs' counters cover many runs of docker-ralph.
func TestSince(t *testing.T) {
	at := func(host string, refused bool, count int) lifecycle.Request {
		return lifecycle.Request{Host: host, Port: 443, Refused: refused, Count: count}
	}
	before := []lifecycle.Request{at("a", true, 3), at("b", true, 1), at("c", false, 2), at("d", true, 9)}
	after := []lifecycle.Request{at("a", true, 5), at("b", true, 1), at("c", true, 1), at("d", true, 2), at("e", true, 1)}
	assert.DeepEqual(t, Since(before, after), []lifecycle.Request{at("a", true, 2), at("c", true, 1), at("d", true, 2), at("e", true, 1)})
}

func TestRequestsAsDecisions(t *testing.T) {
	refused := lifecycle.Request{Host: "far.example", Port: 8443, Refused: true, Count: 2, Why: "default deny"}
	d := decisionOf(egress.Allowlist, refused)
	assert.Equal(t, d.Decision+" "+d.Why+" "+d.Hint+" "+d.Via, "refused default deny ×2 far.example:8443 proxy")
	assert.Equal(t, decisionOf(egress.Deny, refused).Hint, "", "no rule would help")
	d = decisionOf(egress.Allowlist, lifecycle.Request{Host: "a.example", Port: 443, Count: 1})
	assert.Equal(t, d.Decision+" "+d.Why+" "+d.Hint, "allowed ×1 ")
}
