package run

import (
	"bytes"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
)

func TestMissingKeysAreReported(t *testing.T) {
	for _, tc := range []struct {
		name, agent string
		env         map[string]string
		want        string
	}{
		{
			name: "claude", agent: "claude",
			want: "Warning: claude has no key: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN is not set\n" +
				"Hint: set one of them, or sign in with \"claude\" on this machine\n",
		},
		{name: "codex", agent: "codex", want: "Warning: codex has no key: CODEX_API_KEY or OPENAI_API_KEY or CODEX_ACCESS_TOKEN is not set\nHint: set CODEX_API_KEY\n"},
		{name: "gemini", agent: "gemini", want: "Warning: gemini has no key: GEMINI_API_KEY or GOOGLE_API_KEY is not set\nHint: set GEMINI_API_KEY\n"},
		{name: "a key", agent: "claude", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"}},
		{name: "an endpoint that may need none", agent: "claude", env: map[string]string{"ANTHROPIC_BASE_URL": "http://gateway.example"}},
		{name: "another cloud", agent: "gemini", env: map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "true"}},
		{name: "a model of its own files", agent: "opencode"},
		{name: "no model", agent: "shell"},
		{name: "a custom agent", agent: "mine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			h := host.Host{Stderr: &said, LookupEnv: func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok }}
			routed, err := credential.Router{LookupEnv: h.LookupEnv}.Route(t.Context(), tc.agent, nil)
			assert.NilError(t, err)
			if err := missingKey(h, tc.agent, routed); err != nil {
				h.Warn(err)
			}
			assert.Equal(t, said.String(), tc.want)
		})
	}
}

func TestModelFailuresNameTheVariable(t *testing.T) {
	for _, tc := range []struct {
		name   string
		env    map[string]string
		status int
		why    string
		want   string
	}{
		{
			name: "a refused key", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, status: 401, why: "it answered 401 Unauthorized",
			want: "Warning: api.anthropic.com rejected the key in ANTHROPIC_API_KEY: it answered 401 Unauthorized\nHint: check ANTHROPIC_API_KEY\n",
		},
		{
			name: "a refused header", env: map[string]string{"ANTHROPIC_CUSTOM_HEADERS": "X-Key: sk-1"}, status: 403, why: "it answered 403 Forbidden",
			want: "Warning: api.anthropic.com rejected the key in ANTHROPIC_CUSTOM_HEADERS: it answered 403 Forbidden\nHint: check ANTHROPIC_CUSTOM_HEADERS\n",
		},
		{
			name: "an endpoint that needs a key", env: map[string]string{"ANTHROPIC_BASE_URL": "http://gateway.example:8000"}, status: 401, why: "it answered 401 Unauthorized",
			want: "Warning: api.anthropic.com:443 requires a key: it answered 401 Unauthorized\nHint: set ANTHROPIC_AUTH_TOKEN\n",
		},
		{
			name: "a wrong path", env: map[string]string{"ANTHROPIC_BASE_URL": "http://gateway.example/v1", "ANTHROPIC_API_KEY": "sk-1"}, status: 404, why: "it answered 404 Not Found",
			want: "Warning: the agent's model is not at api.anthropic.com:443: it answered 404 Not Found\nHint: check the path of ANTHROPIC_BASE_URL, and the model's name\n",
		},
		{
			name: "an endpoint that is not there", env: map[string]string{"ANTHROPIC_BASE_URL": "http://gateway.example", "ANTHROPIC_API_KEY": "sk-1"}, why: "connection refused",
			want: "Warning: the agent's model at api.anthropic.com:443 cannot be reached: connection refused\nHint: check ANTHROPIC_BASE_URL\n",
		},
		{
			name: "no network", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, why: "there is no such host",
			want: "Warning: the agent's model at api.anthropic.com cannot be reached: there is no such host\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			routed, err := credential.Router{LookupEnv: func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok }}.Route(t.Context(), "claude", nil)
			assert.NilError(t, err)
			w := &modelWatch{host: host.Host{Stderr: &said}, keys: routed, reported: map[string]bool{}}
			failure := egress.Decision{Decision: egress.Failed, Host: "api.anthropic.com", Port: 443, Route: "/anthropic", Status: tc.status, Why: tc.why}
			w.report(failure)
			w.report(failure) // once is enough
			w.report(egress.Decision{Decision: egress.Allowed, Route: "/anthropic"})
			w.report(egress.Decision{Decision: egress.Failed, Route: "/git", Status: 401})
			assert.Equal(t, said.String(), tc.want)
		})
	}
}
