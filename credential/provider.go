package credential

import (
	"context"
	"encoding/json"
	"slices"
)

// customHeaders holds headers that Claude Code adds to its requests.
const customHeaders = "ANTHROPIC_CUSTOM_HEADERS"

// provider is a model's API to which a proxy can add the key.
type provider struct {
	name     string   // that of its [Service], and of the route
	target   string   // what the agent would ask by itself
	paths    []string // what of it the agent needs
	endpoint string   // variable with a target of the user's own; "" if there is none
	headers  string   // variable with further headers; "" if there is none
	keys     []key    // the first that is set counts
	// signIn reads the key from where the agent's own login has left it.
	signIn func(Router, context.Context) (key, string)
}

// key is a variable with a key and how that is sent.
type key struct{ variable, header, prefix string }

func bearer(variable string) key { return key{variable, "Authorization", "Bearer "} }

// secrets are the variables that can hold keys for it.
func (p provider) secrets() []string {
	names := []string{p.headers}
	for _, k := range p.keys {
		names = append(names, k.variable)
	}
	return names
}

// family is how agents of a kind are led to routes.
type family struct {
	providers []provider
	config    []string // variables that configure it, which we write
	// tell returns the variables that lead to all routes.
	tell func(base string, lead []leading) []string
}

// openAIPaths are what agents ask of OpenAI and those who do alike.
func openAIPaths() []string { return []string{"/responses", "/chat/completions", "/models"} }

func openAI(keys ...key) provider {
	return provider{name: "openai", target: "https://api.openai.com/v1", paths: openAIPaths(), endpoint: "OPENAI_BASE_URL", keys: keys}
}

// familyOf is what is known of an agent; nothing for those that have to have
// their key. Among these is gemini: it asks no endpoint by plain HTTP that is
// not on its own machine.
func familyOf(agent string) family {
	switch agent {
	case "claude":
		return family{tell: tellEndpoint, providers: []provider{{
			name: "anthropic", target: "https://api.anthropic.com", paths: []string{"/v1/messages", "/v1/models"},
			endpoint: "ANTHROPIC_BASE_URL", headers: customHeaders,
			keys:   []key{bearer("ANTHROPIC_AUTH_TOKEN"), {"ANTHROPIC_API_KEY", "X-Api-Key", ""}, bearer("CLAUDE_CODE_OAUTH_TOKEN")},
			signIn: Router.claudeSignIn,
		}}}
	case "codex":
		p := openAI(bearer("CODEX_API_KEY"), bearer("OPENAI_API_KEY"))
		p.signIn = Router.codexSignIn
		return family{tell: tellEndpoint, providers: []provider{p}}
	case "opencode":
		return family{tell: tellOpencode, config: []string{opencodeConfig}, providers: []provider{
			{name: "anthropic", target: "https://api.anthropic.com/v1", paths: []string{"/messages", "/models"}, keys: []key{{"ANTHROPIC_API_KEY", "X-Api-Key", ""}}},
			openAI(bearer("OPENAI_API_KEY")),
			{name: "openrouter", target: "https://openrouter.ai/api/v1", paths: openAIPaths(), keys: []key{bearer("OPENROUTER_API_KEY")}},
		}}
	}
	return family{}
}

// Unkept returns the variables with keys of an agent that go into containers, as no
// proxy can add them to its requests.
func Unkept(agent string) []string {
	var kept []string
	for _, p := range familyOf(agent).providers {
		kept = append(kept, keysFor(agent, p.name)...)
	}
	return slices.DeleteFunc(Names(agent), func(name string) bool { return !holdsKey(name) || slices.Contains(kept, name) })
}

// tellEndpoint is for agents with a variable for their endpoint.
func tellEndpoint(base string, lead []leading) []string {
	var env []string
	for _, l := range lead {
		env = append(env, l.provider.endpoint+"="+base+"/"+l.provider.name)
	}
	return env
}

// opencodeConfig holds a configuration that counts more than all files.
const opencodeConfig = "OPENCODE_CONFIG_CONTENT"

func tellOpencode(base string, lead []leading) []string {
	type options struct {
		BaseURL string `json:"baseURL"`
	}
	type settings struct {
		Options options `json:"options"`
	}
	providers := map[string]settings{}
	for _, l := range lead {
		providers[l.provider.name] = settings{options{base + "/" + l.provider.name}}
	}
	if len(providers) == 0 {
		return nil
	}
	content, _ := json.Marshal(map[string]any{"provider": providers}) // holds nothing that cannot be encoded
	return []string{opencodeConfig + "=" + string(content)}
}
