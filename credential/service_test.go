package credential_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
)

func TestKeyVariables(t *testing.T) {
	for _, agent := range config.BuiltinAgents() {
		assert.Equal(t, len(credential.Names(agent)) > 0, agent != "shell", agent)
	}
	assert.Equal(t, len(credential.Names("mine")), 0, "an agent of one's own gets what env.pass names")
}

func TestServices(t *testing.T) {
	for _, agent := range config.BuiltinAgents() {
		services := credential.Services(agent)
		assert.Equal(t, len(services) > 0, agent != "shell", agent)
		for _, s := range services {
			assert.Assert(t, s.Name != "" && len(s.Variables) > 0, agent)
			assert.Assert(t, s.Endpoint == "" || slices.Contains(credential.Names(agent), s.Endpoint), "%s: Leave learns of %s only if Collect looks for it", agent, s.Endpoint)
		}
	}
	assert.Equal(t, len(credential.Services("mine")), 0)
}

// What opens an agent's model must be known as a key, or it would go into a
// microVM unasked.
func TestServicesCoverAllKeys(t *testing.T) {
	harmless := []string{
		"CLAUDE_CODE_USE_BEDROCK",
		"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
		"COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY", // no proxy knows this one: it goes in
	}
	for _, agent := range append(config.BuiltinAgents(), credential.APIs()...) {
		for _, name := range credential.Names(agent) {
			known := slices.ContainsFunc(credential.Services(agent), func(s credential.Service) bool {
				return s.Endpoint == name || slices.Contains(s.Variables, name)
			})
			assert.Equal(t, known, !slices.Contains(harmless, name), "%s of %s", name, agent)
		}
	}
}

func TestLeave(t *testing.T) {
	for _, tc := range []struct {
		name, agent, env, present, named string // blanks between words
		want, keyless                    string
	}{
		{"a key that the proxy has", "claude", "TERM=x ANTHROPIC_API_KEY=k", "anthropic", "", "TERM=x ANTHROPIC_API_KEY=proxy-managed", ""},
		{"a key that is only in the proxy", "claude", "TERM=x", "anthropic", "", "TERM=x ANTHROPIC_API_KEY=proxy-managed", ""},
		{"all forms of the key stay out", "claude", "ANTHROPIC_AUTH_TOKEN=a CLAUDE_CODE_OAUTH_TOKEN=o ANTHROPIC_CUSTOM_HEADERS=h", "anthropic", "", "ANTHROPIC_API_KEY=proxy-managed", ""},
		{"a key that the proxy does not have", "claude", "TERM=x ANTHROPIC_API_KEY=k", "openai", "", "TERM=x", "anthropic"},
		{"no key at all", "claude", "TERM=x", "", "", "TERM=x", "anthropic"},
		{"another endpoint", "claude", "ANTHROPIC_API_KEY=k ANTHROPIC_CUSTOM_HEADERS=h ANTHROPIC_BASE_URL=http://gateway", "anthropic", "", "ANTHROPIC_API_KEY=k ANTHROPIC_CUSTOM_HEADERS=h ANTHROPIC_BASE_URL=http://gateway", ""},
		{"another endpoint, nothing in the proxy", "claude", "ANTHROPIC_AUTH_TOKEN=a ANTHROPIC_BASE_URL=http://gateway", "", "", "ANTHROPIC_AUTH_TOKEN=a ANTHROPIC_BASE_URL=http://gateway", ""},
		{"another endpoint that needs no key", "claude", "ANTHROPIC_BASE_URL=http://gateway", "anthropic", "", "ANTHROPIC_BASE_URL=http://gateway", ""},
		{"an empty endpoint is none", "claude", "ANTHROPIC_API_KEY=k ANTHROPIC_BASE_URL=", "anthropic", "", "ANTHROPIC_BASE_URL= ANTHROPIC_API_KEY=proxy-managed", ""},
		{"the endpoint of another agent", "claude", "ANTHROPIC_API_KEY=k OPENAI_BASE_URL=http://gateway", "", "", "OPENAI_BASE_URL=http://gateway", "anthropic"},
		{"named", "claude", "ANTHROPIC_API_KEY=k", "", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY=k", ""},
		{"named, and the proxy has it too", "claude", "ANTHROPIC_API_KEY=k", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY=k", ""},
		{"another form named", "claude", "ANTHROPIC_API_KEY=k CLAUDE_CODE_OAUTH_TOKEN=o", "anthropic", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN=o", ""},
		{"named but not set", "claude", "TERM=x", "anthropic", "ANTHROPIC_API_KEY", "TERM=x ANTHROPIC_API_KEY=proxy-managed", ""},
		{"named but empty, in the proxy", "claude", "ANTHROPIC_API_KEY=", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY=proxy-managed", ""},
		{"named but empty", "claude", "ANTHROPIC_API_KEY=", "", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY=", "anthropic"},
		{"named, of no service", "claude", "GH_TOKEN=g", "anthropic", "GH_TOKEN", "GH_TOKEN=g ANTHROPIC_API_KEY=proxy-managed", ""},
		{"codex", "codex", "OPENAI_API_KEY=k CODEX_ACCESS_TOKEN=c", "openai", "", "CODEX_API_KEY=proxy-managed", ""},
		{"codex elsewhere", "codex", "OPENAI_API_KEY=k OPENAI_BASE_URL=http://gateway", "openai", "", "OPENAI_API_KEY=k OPENAI_BASE_URL=http://gateway", ""},
		{"gemini", "gemini", "GOOGLE_API_KEY=k GOOGLE_CLOUD_PROJECT=p", "google", "", "GOOGLE_CLOUD_PROJECT=p GEMINI_API_KEY=proxy-managed", ""},
		{"some of many", "opencode", "ANTHROPIC_API_KEY=a OPENAI_API_KEY=o GEMINI_API_KEY=g", "openrouter anthropic", "OPENAI_API_KEY", "OPENAI_API_KEY=o ANTHROPIC_API_KEY=proxy-managed OPENROUTER_API_KEY=proxy-managed", "google"},
		{"none of many", "crush", "ANTHROPIC_API_KEY=a", "", "", "", "anthropic openai google openrouter"},
		{"copilot", "copilot", "COPILOT_GITHUB_TOKEN=t", "github", "", "COPILOT_GITHUB_TOKEN=proxy-managed", ""},
		{"copilot with a provider of one's own", "copilot", "COPILOT_GITHUB_TOKEN=t COPILOT_PROVIDER_API_KEY=k COPILOT_PROVIDER_BASE_URL=u", "", "", "COPILOT_PROVIDER_API_KEY=k COPILOT_PROVIDER_BASE_URL=u", "github"},
		{"shell", "shell", "ANTHROPIC_API_KEY=k", "anthropic", "", "ANTHROPIC_API_KEY=k", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := strings.Fields(tc.env)
			before := slices.Clone(env)
			present := func(service string) bool { return slices.Contains(strings.Fields(tc.present), service) }
			left, keyless := credential.Leave(env, credential.Services(tc.agent), present, strings.Fields(tc.named))
			assert.Equal(t, strings.Join(left, " "), tc.want)
			var names []string
			for _, s := range keyless {
				names = append(names, s.Name)
			}
			assert.Equal(t, strings.Join(names, " "), tc.keyless)
			assert.DeepEqual(t, env, before)
		})
	}
}

func TestLeaveDoesNotChangeValues(t *testing.T) {
	env := []string{"A=b=c d", "EMPTY=", "=C:=odd"}
	left, _ := credential.Leave(env, credential.Services("opencode"), func(string) bool { return false }, nil)
	assert.DeepEqual(t, left, env)
}
