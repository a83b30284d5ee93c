package credential

import (
	"context"
	"encoding/json"
	"slices"
)

// customHeaders contains headers that Claude Code adds to its requests.
const customHeaders = "ANTHROPIC_CUSTOM_HEADERS"

// provider is the API of models, to whose requests a proxy can add the key.
type provider struct {
	name     string   // of its [Service], and of the route
	target   string   // URL
	requests []string // that the agent needs
	endpoint string   // variable with a custom endpoint; empty for none
	headers  string   // variable with further headers; empty for none
	keys     []key    // the first one set is used
	// signIn returns the key of the agent's own login.
	signIn func(Router, context.Context) (key, string)
}

// key is a variable with a key, and the header to send it in.
type key struct{ variable, header, prefix string }

func bearer(variable string) key { return key{variable, "Authorization", "Bearer "} }

// secrets returns the variables that can contain keys.
func (p provider) secrets() []string {
	names := []string{p.headers}
	for _, k := range p.keys {
		names = append(names, k.variable)
	}
	return names
}

// agentRoutes describes the routes of an agent.
type agentRoutes struct {
	providers []provider
	config    []string // variables with its configuration, which are replaced
	// environment returns the variables that make it use the routes.
	environment func(base string, keys []routedKey) []string
}

// anthropicRequests are the requests to Anthropic's API that agents need, below a path such as "/v1". Batches
// would be answered after the loop, and are not metered.
func anthropicRequests(base string) []string {
	return []string{"POST " + base + "/messages", "POST " + base + "/messages/count_tokens", "GET " + base + "/models", "GET " + base + "/models/*"}
}

// openAIRequests are the requests to OpenAI and compatible APIs that agents need.
func openAIRequests() []string {
	return []string{"POST /responses", "POST /responses/compact", "POST /chat/completions", "GET /models", "GET /models/*"}
}

func openAI(keys ...key) provider {
	return provider{name: "openai", target: "https://api.openai.com/v1", requests: openAIRequests(), endpoint: "OPENAI_BASE_URL", keys: keys}
}

// agentProviders returns the routes of an agent; none for agents that need their key inside,
// such as gemini, which refuses plain HTTP to other machines.
func agentProviders(agent string) agentRoutes {
	switch agent {
	case "claude":
		return agentRoutes{environment: endpointVariables, providers: []provider{{
			name: "anthropic", target: "https://api.anthropic.com", requests: anthropicRequests("/v1"),
			endpoint: "ANTHROPIC_BASE_URL", headers: customHeaders,
			keys:   []key{bearer("ANTHROPIC_AUTH_TOKEN"), {"ANTHROPIC_API_KEY", "X-Api-Key", ""}, bearer("CLAUDE_CODE_OAUTH_TOKEN")},
			signIn: Router.claudeSignIn,
		}}}
	case apiAnthropic:
		return agentRoutes{environment: endpointVariables, providers: []provider{{
			name: "anthropic", target: "https://api.anthropic.com", requests: anthropicRequests("/v1"),
			endpoint: "ANTHROPIC_BASE_URL", keys: []key{{"ANTHROPIC_API_KEY", "X-Api-Key", ""}},
		}}}
	case apiOpenAI:
		return agentRoutes{environment: endpointVariables, providers: []provider{openAI(bearer("OPENAI_API_KEY"))}}
	case "codex":
		p := openAI(bearer("CODEX_API_KEY"), bearer("OPENAI_API_KEY"))
		p.signIn = Router.codexSignIn
		return agentRoutes{environment: endpointVariables, providers: []provider{p}}
	case "opencode":
		return agentRoutes{environment: opencodeVariables, config: []string{opencodeConfig}, providers: []provider{
			{name: "anthropic", target: "https://api.anthropic.com/v1", requests: anthropicRequests(""), keys: []key{{"ANTHROPIC_API_KEY", "X-Api-Key", ""}}},
			openAI(bearer("OPENAI_API_KEY")),
			{name: "openrouter", target: "https://openrouter.ai/api/v1", requests: openAIRequests(), keys: []key{bearer("OPENROUTER_API_KEY")}},
		}}
	}
	return agentRoutes{}
}

// ExposedKeys returns the variables with keys of an agent that are passed to containers, because no
// proxy can add them to requests.
func ExposedKeys(agent string) []string {
	var kept []string
	for _, p := range agentProviders(agent).providers {
		kept = append(kept, keysFor(agent, p.name)...)
	}
	return slices.DeleteFunc(Names(agent), func(name string) bool { return !holdsKey(name) || slices.Contains(kept, name) })
}

// endpointVariables is for agents with a variable for their endpoint.
func endpointVariables(base string, keys []routedKey) []string {
	var env []string
	for _, l := range keys {
		env = append(env, l.provider.endpoint+"="+base+"/"+l.provider.name)
	}
	return env
}

// opencodeConfig contains a configuration that overrides all files.
const opencodeConfig = "OPENCODE_CONFIG_CONTENT"

func opencodeVariables(base string, keys []routedKey) []string {
	type options struct {
		BaseURL string `json:"baseURL"`
	}
	type settings struct {
		Options options `json:"options"`
	}
	providers := map[string]settings{}
	for _, l := range keys {
		providers[l.provider.name] = settings{options{base + "/" + l.provider.name}}
	}
	if len(providers) == 0 {
		return nil
	}
	content, _ := json.Marshal(map[string]any{"provider": providers}) // always valid
	return []string{opencodeConfig + "=" + string(content)}
}
