package credential

import (
	"slices"
	"strings"
)

// Sentinel is the value of a key's variable in a sandbox. The proxy on the host sets the key
// in requests.
const Sentinel = "proxy-managed"

// Service is a model provider whose key a proxy on the host can add to requests.
type Service struct {
	Name      string   // as in "sbx secret set NAME"
	Variables []string // that can contain a key; the first one is enough
	Endpoint  string   // variable with another endpoint, for which the proxy has no key; empty for none
}

// Services returns the services that an agent may use.
func Services(agent string) []Service {
	switch agent {
	case "claude":
		return []Service{{
			Name: "anthropic",
			// Headers can contain keys of gateways.
			Variables: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"},
			Endpoint:  "ANTHROPIC_BASE_URL",
		}}
	case apiAnthropic:
		return []Service{{Name: "anthropic", Variables: []string{"ANTHROPIC_API_KEY"}, Endpoint: "ANTHROPIC_BASE_URL"}}
	case apiOpenAI:
		return []Service{{Name: "openai", Variables: []string{"OPENAI_API_KEY"}, Endpoint: "OPENAI_BASE_URL"}}
	case "codex":
		return []Service{{
			Name: "openai",
			// Without a login, "codex exec" uses CODEX_API_KEY only.
			Variables: []string{"CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"},
			Endpoint:  "OPENAI_BASE_URL",
		}}
	case "gemini":
		return []Service{{
			Name:      "google",
			Variables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			Endpoint:  "GOOGLE_GEMINI_BASE_URL",
		}}
	case "opencode", "crush": // other endpoints are in their own files
		return []Service{
			{Name: "anthropic", Variables: []string{"ANTHROPIC_API_KEY"}},
			{Name: "openai", Variables: []string{"OPENAI_API_KEY"}},
			{Name: "google", Variables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
			{Name: "openrouter", Variables: []string{"OPENROUTER_API_KEY"}},
		}
	case "copilot": // a custom provider has its own key
		return []Service{{Name: "github", Variables: []string{"COPILOT_GITHUB_TOKEN"}}}
	default:
		return nil
	}
}

// KeyVariables returns the variables of which an agent needs one; none if its model may need
// no key.
func KeyVariables(agent string) []string {
	var names []string
	for _, s := range Services(agent) {
		names = append(names, s.Variables...)
	}
	if agent == "opencode" || agent == "crush" { // their models may be on this network
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == customHeaders })
}

// Leave removes the keys that a proxy adds from the result of [Collect]. present reports
// whether the proxy has the key of a service. named are the variables that the user passes,
// which stay.
//
//   - If a service's endpoint is set, its keys stay: the proxy does not know that endpoint.
//   - Otherwise they are removed. If the proxy has a key, the service's first variable is the
//     Sentinel, unless the user named one of its variables.
//
// keyless are the services with neither endpoint nor key.
func Leave(env []string, services []Service, present func(service string) bool, named []string) (left []string, keyless []Service) {
	values := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	stay := map[string]bool{}
	var sentinels []string
	for _, service := range services {
		passed := func(name string) bool { return values[name] != "" && slices.Contains(named, name) }
		switch {
		case service.Endpoint != "" && values[service.Endpoint] != "":
			continue
		case slices.ContainsFunc(service.Variables, passed):
		case present(service.Name):
			sentinels = append(sentinels, service.Variables[0]+"="+Sentinel)
			stay[service.Variables[0]] = true // even if it was named: it is empty
		default:
			keyless = append(keyless, service)
		}
		for _, name := range service.Variables {
			if !slices.Contains(named, name) {
				stay[name] = true
			}
		}
	}
	for _, pair := range env {
		if name, _, _ := strings.Cut(pair, "="); !stay[name] {
			left = append(left, pair)
		}
	}
	return append(left, sentinels...), keyless
}
