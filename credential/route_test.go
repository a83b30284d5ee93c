package credential

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

func lookupIn(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
}

// routeLine formats a route, with its secrets.
func routeLine(r egress.Route) string {
	line := r.Prefix + " -> " + r.Target
	if r.Own {
		line += " own"
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Gateway"} {
		if v, ok := r.Headers[name]; ok {
			line += fmt.Sprintf(" %s=%s", name, string(v))
		}
	}
	return line
}

func TestExposedKeys(t *testing.T) {
	for agent, want := range map[string][]string{
		"claude": nil, "codex": nil, "shell": nil, "mine": nil, "anthropic": nil, "openai": nil,
		"opencode": {"GEMINI_API_KEY"},
		"gemini":   {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		"crush":    {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
		"copilot":  {"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"},
	} {
		got := ExposedKeys(agent)
		assert.Check(t, len(got) == len(want) && slices.Equal(got, want), "%s: %v", agent, got)
		// The router exposes the same.
		all := func(name string) (string, bool) {
			if !holdsKey(name) {
				return "", false
			}
			return "X-Key: k-" + name, true
		}
		routed, err := Router{LookupEnv: all}.Route(t.Context(), agent, nil)
		assert.NilError(t, err)
		assert.Check(t, len(routed.Exposed) == len(want) && slices.Equal(routed.Exposed, want), "%s: %v", agent, routed.Exposed)
	}
}

func TestRoute(t *testing.T) {
	const base = "http://10.0.0.2:8080"
	extra := []string{"/extra"}
	for _, tc := range []struct {
		name, agent string
		env         map[string]string
		named       []string
		routes      []string
		paths       []string // of the first route
		inside      []string
		exposed     []string
		agentEnv    []string
	}{
		{
			name: "claude, key", agent: "claude", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"},
			routes:   []string{"/anthropic -> https://api.anthropic.com X-Api-Key=sk-1"},
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "custom agent, Anthropic's API", agent: "anthropic", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "sk-2", "OPENAI_API_KEY": "sk-3"},
			routes:   []string{"/anthropic -> https://api.anthropic.com X-Api-Key=sk-1"},
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "custom agent, OpenAI's API at another endpoint", agent: "openai", env: map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://10.0.0.5/v1"},
			routes: []string{"/openai -> http://10.0.0.5/v1 own Authorization=Bearer sk-1"}, paths: extra,
			agentEnv: []string{"OPENAI_API_KEY=proxy-managed", "OPENAI_BASE_URL=" + base + "/openai"},
		},
		{
			name: "claude, token before key", agent: "claude", env: map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "sk-2", "CLAUDE_CODE_OAUTH_TOKEN": "sk-3"},
			routes:   []string{"/anthropic -> https://api.anthropic.com Authorization=Bearer sk-2"},
			agentEnv: []string{"ANTHROPIC_AUTH_TOKEN=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, subscription", agent: "claude", env: map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": " sk-3\n"},
			routes:   []string{"/anthropic -> https://api.anthropic.com Authorization=Bearer sk-3"},
			agentEnv: []string{"CLAUDE_CODE_OAUTH_TOKEN=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, own endpoint and headers", agent: "claude",
			env: map[string]string{
				"ANTHROPIC_BASE_URL": "http://192.168.1.5:8000/claude/", "ANTHROPIC_API_KEY": "sk-1",
				"ANTHROPIC_CUSTOM_HEADERS": "x-gateway: sk-4\nanthropic-beta: new\n",
			},
			routes: []string{"/anthropic -> http://192.168.1.5:8000/claude own X-Api-Key=sk-1 X-Gateway=sk-4"}, paths: extra,
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "ANTHROPIC_CUSTOM_HEADERS=anthropic-beta: new", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, headers only", agent: "claude", env: map[string]string{"ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: sk-4"},
			routes:   []string{"/anthropic -> https://api.anthropic.com X-Gateway=sk-4"},
			agentEnv: []string{"ANTHROPIC_AUTH_TOKEN=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, own endpoint without a key", agent: "claude", env: map[string]string{"ANTHROPIC_BASE_URL": "http://192.168.1.5:8000"},
			routes: []string{"/anthropic -> http://192.168.1.5:8000 own"}, paths: extra,
			agentEnv: []string{"ANTHROPIC_AUTH_TOKEN=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, the key is named", agent: "claude", named: []string{"ANTHROPIC_API_KEY", "MINE"},
			env:    map[string]string{"ANTHROPIC_API_KEY": "sk-1", "CLAUDE_CODE_OAUTH_TOKEN": "sk-3", "MINE": "m", "OTHER": "o"},
			inside: []string{"ANTHROPIC_API_KEY=sk-1", "MINE=m"},
		},
		{
			name: "claude, another is named", agent: "claude", named: []string{"MINE", "ANTHROPIC_AUTH_TOKEN"},
			env:      map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "", "MINE": "m"},
			inside:   []string{"MINE=m"},
			routes:   []string{"/anthropic -> https://api.anthropic.com X-Api-Key=sk-1"},
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, the endpoint is named", agent: "claude", named: []string{"ANTHROPIC_BASE_URL"},
			env:    map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "http://192.168.1.5:8000"},
			routes: []string{"/anthropic -> http://192.168.1.5:8000 own X-Api-Key=sk-1"}, paths: extra,
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "ANTHROPIC_BASE_URL=" + base + "/anthropic"},
		},
		{
			name: "claude, endpoint and key are named", agent: "claude", named: []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"},
			env:    map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "https://gateway.example"},
			inside: []string{"ANTHROPIC_API_KEY=sk-1", "ANTHROPIC_BASE_URL=https://gateway.example"},
		},
		{
			name: "codex", agent: "codex", env: map[string]string{"OPENAI_API_KEY": "sk-1", "CODEX_ACCESS_TOKEN": "sk-2"},
			routes:   []string{"/openai -> https://api.openai.com/v1 Authorization=Bearer sk-1"},
			agentEnv: []string{"OPENAI_API_KEY=proxy-managed", "OPENAI_BASE_URL=" + base + "/openai"},
		},
		{
			name: "codex, own endpoint", agent: "codex", env: map[string]string{"OPENAI_API_KEY": "sk-1", "CODEX_API_KEY": "sk-2", "OPENAI_BASE_URL": "https://gateway.example/v1"},
			routes: []string{"/openai -> https://gateway.example/v1 own Authorization=Bearer sk-2"}, paths: extra,
			agentEnv: []string{"CODEX_API_KEY=proxy-managed", "OPENAI_BASE_URL=" + base + "/openai"},
		},
		{name: "codex, access token", agent: "codex", env: map[string]string{"CODEX_ACCESS_TOKEN": "sk-2"}, inside: []string{"CODEX_ACCESS_TOKEN=sk-2"}, exposed: []string{"CODEX_ACCESS_TOKEN"}},
		{
			name: "opencode", agent: "opencode", env: map[string]string{"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2", "GEMINI_API_KEY": "sk-3", "ANTHROPIC_BASE_URL": "https://gateway.example"},
			routes: []string{"/anthropic -> https://api.anthropic.com/v1 X-Api-Key=sk-2", "/openai -> https://api.openai.com/v1 Authorization=Bearer sk-1"},
			inside: []string{"GEMINI_API_KEY=sk-3"}, exposed: []string{"GEMINI_API_KEY"},
			agentEnv: []string{"ANTHROPIC_API_KEY=proxy-managed", "OPENAI_API_KEY=proxy-managed", `OPENCODE_CONFIG_CONTENT={"provider":{"anthropic":{"options":{"baseURL":"` + base +
				`/anthropic"}},"openai":{"options":{"baseURL":"` + base + `/openai"}}}}`},
		},
		{
			name: "opencode, configured by the user", agent: "opencode", named: []string{"OPENCODE_CONFIG_CONTENT"},
			env:    map[string]string{"OPENAI_API_KEY": "sk-1", "OPENCODE_CONFIG_CONTENT": "{}"},
			inside: []string{"OPENAI_API_KEY=sk-1", "OPENCODE_CONFIG_CONTENT={}"}, exposed: []string{"OPENAI_API_KEY"},
		},
		{name: "gemini", agent: "gemini", env: map[string]string{"GEMINI_API_KEY": "sk-1", "GOOGLE_CLOUD_PROJECT": "p"}, inside: []string{"GEMINI_API_KEY=sk-1", "GOOGLE_CLOUD_PROJECT=p"}, exposed: []string{"GEMINI_API_KEY"}},
		{name: "copilot", agent: "copilot", env: map[string]string{"COPILOT_GITHUB_TOKEN": "sk-1"}, inside: []string{"COPILOT_GITHUB_TOKEN=sk-1"}, exposed: []string{"COPILOT_GITHUB_TOKEN"}},
		{name: "one's own", agent: "mine", named: []string{"MY_API_KEY"}, env: map[string]string{"OPENAI_API_KEY": "sk-1", "MY_API_KEY": "sk-2"}, inside: []string{"MY_API_KEY=sk-2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Router{LookupEnv: lookupIn(tc.env), EndpointPaths: []string{"/extra"}}.Route(t.Context(), tc.agent, tc.named)
			assert.NilError(t, err)
			var routes []string
			for _, r := range got.Routes {
				routes = append(routes, routeLine(r))
			}
			assert.DeepEqual(t, routes, tc.routes)
			if len(got.Routes) > 0 {
				assert.DeepEqual(t, got.Routes[0].Paths, tc.paths)
				assert.DeepEqual(t, got.Routes[0].Requests, agentProviders(tc.agent).providers[0].requests)
			}
			assert.DeepEqual(t, got.Inside, tc.inside)
			assert.DeepEqual(t, got.Exposed, tc.exposed)
			agentEnv := got.Environment(base)
			assert.DeepEqual(t, agentEnv, tc.agentEnv)
			assert.Check(t, !strings.Contains(strings.Join(agentEnv, "\n"), "sk-"), "the agent has a key")
			shown := fmt.Sprintf("%+v", got.Routes)
			assert.Check(t, !strings.Contains(shown, "sk-"), shown)
		})
	}
}

func TestRouteWithoutAProxy(t *testing.T) {
	env := map[string]string{"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_CUSTOM_HEADERS": "X-Guard: g", bedrockSwitch: "1"}
	got, err := Router{LookupEnv: lookupIn(env), NoProxy: true}.Route(t.Context(), "claude", nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, got.Inside, []string{"ANTHROPIC_API_KEY=sk-1", "ANTHROPIC_CUSTOM_HEADERS=X-Guard: g", bedrockSwitch + "=1"})
	assert.DeepEqual(t, got.Exposed, []string{"ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS"})
	assert.Equal(t, len(got.Routes), 0)

	got, err = Router{LookupEnv: lookupIn(env), Cloud: true}.Route(t.Context(), "claude", nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, got.Inside, []string{"ANTHROPIC_CUSTOM_HEADERS=X-Guard: g", bedrockSwitch + "=1"})
	assert.Equal(t, len(got.Routes), 0)
}

func TestRouteRefuses(t *testing.T) {
	for _, tc := range []struct{ name, variable, value, err string }{
		{"no URL", "ANTHROPIC_BASE_URL", "sk-9", "ANTHROPIC_BASE_URL must be a URL"},
		{"unreadable", "ANTHROPIC_BASE_URL", "https://sk-9:x/%zz", "ANTHROPIC_BASE_URL must be a URL"},
		{"another scheme", "ANTHROPIC_BASE_URL", "file:///sk-9", "ANTHROPIC_BASE_URL must be a URL"},
		{"a password", "ANTHROPIC_BASE_URL", "https://u:sk-9@gateway.example", "must not have a user, a query or a fragment"},
		{"a key in the query", "ANTHROPIC_BASE_URL", "https://gateway.example/?key=sk-9", "must not have a user, a query or a fragment"},
		{"an odd host", "ANTHROPIC_BASE_URL", "https://-x.example", "keeping the key of anthropic out of the sandbox"},
		{"a key of two lines", "ANTHROPIC_API_KEY", "sk-9\nX: y", `the header "X-Api-Key" cannot be sent`},
		{"no header", "ANTHROPIC_CUSTOM_HEADERS", "sk-9", `ANTHROPIC_CUSTOM_HEADERS has a line that is not "Name: value"`},
		{"no name of a header", "ANTHROPIC_CUSTOM_HEADERS", "X Y: sk-9", `not "Name: value"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{"ANTHROPIC_API_KEY": "sk-1", tc.variable: tc.value}
			_, err := Router{LookupEnv: lookupIn(env)}.Route(t.Context(), "claude", nil)
			assert.ErrorContains(t, err, tc.err)
			assert.Check(t, !strings.Contains(err.Error(), "sk-"), err.Error())
		})
	}
}

func TestSignIn(t *testing.T) {
	later, before := time.Now().Add(time.Hour).UnixMilli(), time.Now().Add(-time.Hour).UnixMilli()
	claude := func(ends int64) string {
		return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"sk-signed-in","refreshToken":"sk-refresh","expiresAt":%d}}`, ends)
	}
	for _, tc := range []struct {
		name, agent, file, content string
		env                        map[string]string
		want, warning              string
	}{
		{name: "claude", agent: "claude", file: ".claude/.credentials.json", content: claude(later), want: "/anthropic -> https://api.anthropic.com Authorization=Bearer sk-signed-in"},
		{name: "claude, expired", agent: "claude", file: ".claude/.credentials.json", content: claude(before), warning: "expired at"},
		{
			name: "claude, a key comes first", agent: "claude", file: ".claude/.credentials.json", content: claude(before),
			env: map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, want: "/anthropic -> https://api.anthropic.com X-Api-Key=sk-1",
		},
		{name: "claude, not for others", agent: "claude", file: ".claude/.credentials.json", content: claude(later), env: map[string]string{"ANTHROPIC_BASE_URL": "https://gateway.example"}, want: "/anthropic -> https://gateway.example own"},
		{
			name: "claude, elsewhere", agent: "claude", file: "else/.credentials.json", content: claude(later),
			env: map[string]string{"CLAUDE_CONFIG_DIR": "HOME/else"}, want: "/anthropic -> https://api.anthropic.com Authorization=Bearer sk-signed-in",
		},
		{name: "claude, nonsense", agent: "claude", file: ".claude/.credentials.json", content: `{"claudeAiOauth":7}`},
		{name: "codex", agent: "codex", file: ".codex/auth.json", content: `{"OPENAI_API_KEY":"sk-signed-in","tokens":null}`, want: "/openai -> https://api.openai.com/v1 Authorization=Bearer sk-signed-in"},
		{name: "codex with ChatGPT", agent: "codex", file: ".codex/auth.json", content: `{"OPENAI_API_KEY":null,"tokens":{"access_token":"sk-t"}}`},
		{name: "not for another agent", agent: "opencode", file: ".codex/auth.json", content: `{"OPENAI_API_KEY":"sk-signed-in"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, tc.file)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			assert.NilError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			env := maps.Clone(tc.env)
			for name, value := range env {
				env[name] = strings.ReplaceAll(value, "HOME", home)
			}
			var warnings []string
			router := Router{LookupEnv: lookupIn(env), Home: home, Warn: func(m string) { warnings = append(warnings, m) }}
			got, err := router.Route(t.Context(), tc.agent, nil)
			assert.NilError(t, err)
			line := ""
			for _, r := range got.Routes {
				line += routeLine(r)
			}
			assert.Equal(t, line, tc.want)
			assert.Check(t, is.Contains(strings.Join(warnings, "\n"), tc.warning))
			assert.Equal(t, len(warnings) > 0, tc.warning != "")
			assert.Check(t, !strings.Contains(strings.Join(warnings, "\n"), "sk-"))
		})
	}
	for _, home := range []string{"", t.TempDir()} {
		got, err := Router{LookupEnv: lookupIn(nil), Home: home}.Route(t.Context(), "claude", nil)
		assert.NilError(t, err)
		assert.Equal(t, len(got.Routes), 0)
	}
}

// The agent gets no headers but those of the API, and all can be sent.
func FuzzSplitHeaders(f *testing.F) {
	for _, seed := range []string{"X-A: b", "a: b\nanthropic-beta: c", "a", ":", "a:\n", "Anthropic-X : y\r\n", "x\x00: y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		secret, open, err := splitHeaders(customHeaders, text)
		if err != nil {
			return
		}
		for name := range secret {
			assert.Assert(t, isToken(name) && !strings.HasPrefix(strings.ToLower(name), "anthropic-"), name)
		}
		for line := range strings.Lines(open) {
			assert.Assert(t, strings.HasPrefix(strings.ToLower(line), "anthropic-"), line)
		}
	})
}

func FuzzSignIn(f *testing.F) {
	f.Add([]byte(`{"claudeAiOauth":{"accessToken":"a","expiresAt":1}}`), []byte(`{"OPENAI_API_KEY":"a"}`))
	f.Add([]byte(`[]`), []byte(`{"OPENAI_API_KEY":["a"]}`))
	f.Fuzz(func(t *testing.T, claude, codex []byte) {
		home := t.TempDir()
		for path, content := range map[string][]byte{".claude/" + claudeCredentials: claude, ".codex/" + codexCredentials: codex} {
			assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, path)), 0o700))
			assert.NilError(t, os.WriteFile(filepath.Join(home, path), content, 0o600))
		}
		for _, agent := range []string{"claude", "codex"} {
			got, err := Router{LookupEnv: lookupIn(nil), Home: home}.Route(t.Context(), agent, nil)
			if err == nil {
				assert.NilError(t, egress.CheckRoutes(got.Routes))
			}
		}
	})
}
