package credential

import (
	"slices"
	"strings"
)

// Sentinel stands in a microVM where a key would be. The proxy on the host
// puts the key in its place, in requests to the domains of the service.
const Sentinel = "proxy-managed"

// Service is one whose key a proxy on the host can add to an agent's requests.
type Service struct {
	Name      string   // as in "sbx secret set NAME"
	Variables []string // those that can hold a key for it; the agent is content with the first
	Endpoint  string   // sends the requests elsewhere, where the proxy adds nothing; "" if there is none
}

// Services returns the services that an agent may use; none for an agent that
// asks no model or is not known.
func Services(agent string) []Service {
	switch agent {
	case "claude":
		return []Service{{
			Name: "anthropic",
			// Headers are there because keys of gateways are sent in them.
			Variables: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"},
			Endpoint:  "ANTHROPIC_BASE_URL",
		}}
	case "codex":
		return []Service{{
			Name: "openai",
			// Without a login "codex exec" looks at CODEX_API_KEY alone.
			Variables: []string{"CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"},
			Endpoint:  "OPENAI_BASE_URL",
		}}
	case "gemini":
		return []Service{{
			Name:      "google",
			Variables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			Endpoint:  "GOOGLE_GEMINI_BASE_URL",
		}}
	case "opencode", "crush": // other endpoints stand in their own files
		return []Service{
			{Name: "anthropic", Variables: []string{"ANTHROPIC_API_KEY"}},
			{Name: "openai", Variables: []string{"OPENAI_API_KEY"}},
			{Name: "google", Variables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
			{Name: "openrouter", Variables: []string{"OPENROUTER_API_KEY"}},
		}
	case "copilot": // a model provider of one's own has its own key, which no proxy knows
		return []Service{{Name: "github", Variables: []string{"COPILOT_GITHUB_TOKEN"}}}
	default:
		return nil
	}
}

// KeyVariables returns the variables of which one has to hold a key for an agent;
// none for an agent that asks no model, whose model may need no key, or that is not
// known.
func KeyVariables(agent string) []string {
	var names []string
	for _, s := range Services(agent) {
		names = append(names, s.Variables...)
	}
	if agent == "opencode" || agent == "crush" { // their own files may name a model on this network
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == customHeaders })
}

// Leave takes what Collect returned and leaves the keys on the host that a
// proxy adds there. present reports whether the proxy has the key of a service.
// named are the variables that the user asked to pass on: they go in with
// their values, whatever else holds.
//
//   - Where a service's endpoint is set, its keys go in: the proxy does not
//     know that endpoint.
//   - Otherwise they stay out. If the proxy has a key, the service's first
//     variable gets the Sentinel, unless the user named one of its variables.
//
// keyless are the services with neither endpoint nor key: the agent cannot use
// them until the user gives the proxy their key.
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
