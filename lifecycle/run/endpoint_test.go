package run

import (
	"bytes"
	"strings"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestUsersEndpointsAreAllowed(t *testing.T) {
	cloud := []string{"AWS_REGION=eu-west-1", "AWS_SECRET_ACCESS_KEY=s"}
	inside := &credential.Routed{Inside: []string{"GOOGLE_GEMINI_BASE_URL=https://models.example:8443/v1", "GEMINI_API_KEY=k", "COPILOT_PROVIDER_BASE_URL=http://10.1.2.3/v1"}}
	for _, tc := range []struct {
		name    string
		mode    egress.Mode
		keys    *credential.Routed
		cloud   []string
		open    []string
		warning string
	}{
		{name: "none", mode: egress.Allowlist, keys: &credential.Routed{}},
		{name: "a region of Bedrock", mode: egress.Allowlist, cloud: cloud, open: []string{"bedrock-runtime.eu-west-1.amazonaws.com", "bedrock.eu-west-1.amazonaws.com"}},
		{name: "deny leaves the model", mode: egress.Deny, cloud: cloud, open: []string{"bedrock-runtime.eu-west-1.amazonaws.com", "bedrock.eu-west-1.amazonaws.com"}},
		{name: "an address that goes in", mode: egress.Deny, keys: inside, open: []string{"models.example:8443"}, warning: "does not let the agent reach its endpoint 10.1.2.3"},
		{name: "all is open", mode: egress.AllowAll, keys: inside, cloud: cloud},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy, err := egress.New(tc.mode, "gemini", []string{egress.AgentPreset}, nil)
			assert.NilError(t, err)
			spec := lifecycle.Spec{Egress: lifecycle.Egress{Policy: policy, Amended: policy}}
			before := spec.Settings()
			var stderr bytes.Buffer
			assert.DeepEqual(t, openEndpoints(host.Host{Stderr: &stderr}, tc.keys, &spec.Egress, tc.cloud), tc.open)
			for _, text := range tc.open {
				rule, err := egress.ParseRule(text)
				assert.NilError(t, err)
				assert.Check(t, spec.Egress.Amended.Decide(rule.Host, max(rule.Port, 443)).Allowed, text)
			}
			assert.Equal(t, spec.Settings(), before, "the sandbox is the same")
			if tc.warning == "" {
				assert.Equal(t, stderr.String(), "")
			}
			assert.Check(t, is.Contains(stderr.String(), tc.warning))
		})
	}
}

func TestUnreachableEndpointsAreRejected(t *testing.T) {
	for _, tc := range []struct{ name, mode, agent, variable, value, inside, err, hint string }{
		{name: "none", mode: "allowlist", agent: "claude"},
		{name: "a name", mode: "allow-all", agent: "claude", variable: "ANTHROPIC_BASE_URL", value: "https://gateway.example"},
		{name: "a public address", mode: "allow-all", agent: "claude", variable: "ANTHROPIC_BASE_URL", value: "https://203.0.113.7"},
		{name: "an address by a route", mode: "allowlist", agent: "claude", variable: "ANTHROPIC_BASE_URL", value: "http://10.1.2.3:8000"},
		{
			name: "a private address without a proxy", mode: "allow-all", agent: "claude", variable: "ANTHROPIC_BASE_URL", value: "http://10.1.2.3:8000",
			err: `ANTHROPIC_BASE_URL names an address that the network policy "allow-all" blocks: it leads to 10.1.2.3, which is private`, hint: "--network allowlist",
		},
		{
			name: "this machine by address", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://127.0.0.1:11434",
			err: "OPENAI_BASE_URL points to the sandbox itself (127.0.0.1)", hint: "let the server listen at",
		},
		{
			name: "this machine in IPv6", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://[::1]:4000/v1",
			err: "OPENAI_BASE_URL points to the sandbox itself (::1)", hint: "let the server listen at",
		},
		{
			name: "all addresses", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://0.0.0.0:8000",
			err: "OPENAI_BASE_URL points to the sandbox itself (0.0.0.0)", hint: "let the server listen at",
		},
		{
			name: "a name of this machine", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://Ollama.localhost:8000",
			err: "OPENAI_BASE_URL points to the sandbox itself (Ollama.localhost)", hint: "let the server listen at",
		},
		{
			name: "an IPv4 address in IPv6", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://[::ffff:127.0.0.1]:1",
			err: "OPENAI_BASE_URL points to the sandbox itself (::ffff:127.0.0.1)", hint: "let the server listen at",
		},
		{
			name: "this machine", mode: "allowlist", agent: "codex", variable: "OPENAI_BASE_URL", value: "http://localhost:4000/v1",
			err: "OPENAI_BASE_URL points to the sandbox itself (localhost)", hint: "an address of this machine",
		},
		{name: "loopback", mode: "deny", agent: "claude", variable: "ANTHROPIC_BASE_URL", value: "http://[::1]:4000", err: "sandbox itself (::1)"},
		{
			name: "an address that goes in", mode: "deny", agent: "gemini", variable: "GOOGLE_GEMINI_BASE_URL", value: "http://10.1.2.3/v1", inside: "GOOGLE_GEMINI_BASE_URL=x",
			err: "the network policy allows hosts by name", hint: "--allow NAME=10.1.2.3",
		},
		{name: "of another agent", mode: "allow-all", agent: "codex", variable: "ANTHROPIC_BASE_URL", value: "http://10.1.2.3:8000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{LookupEnv: func(name string) (string, bool) {
				return map[string]string{tc.variable: tc.value}[name], name == tc.variable
			}}
			err := checkEndpoints(h, &credential.Routed{Inside: []string{tc.inside}}, egress.Mode(tc.mode), tc.agent)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
			assert.Check(t, is.Contains(strings.Join(hint.Of(err), "\n"), tc.hint))
		})
	}
}

func TestDeniedEndpointStaysBlocked(t *testing.T) {
	policy, err := egress.New(egress.Allowlist, "claude", nil, nil)
	assert.NilError(t, err)
	rule, err := egress.ParseRule("*.amazonaws.com")
	assert.NilError(t, err)
	refused, err := policy.Refuse(egress.Entry{Rule: rule, Origin: "docker ralph network"})
	assert.NilError(t, err)
	allowed := lifecycle.Egress{Policy: policy, Amended: refused}
	var stderr bytes.Buffer
	assert.Equal(t, len(openEndpoints(host.Host{Stderr: &stderr}, nil, &allowed, []string{"AWS_REGION=eu-west-1"})), 0)
	assert.Check(t, is.Contains(stderr.String(), "Warning: the network policy does not let the agent reach its endpoint bedrock-runtime.eu-west-1.amazonaws.com"))
}
