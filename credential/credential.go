// Package credential finds the keys that an agent needs to use its model, and keeps them out
// of the sandbox where possible.
package credential

import "slices"

// APIs that a custom agent may use. They are names of agents in this package.
const (
	apiAnthropic = "anthropic"
	apiOpenAI    = "openai"
)

// APIs returns the APIs whose key a custom agent can have.
func APIs() []string { return []string{apiAnthropic, apiOpenAI} }

// Names returns the variables of an agent's API keys and endpoint.
func Names(agent string) []string {
	switch agent {
	case "claude":
		return []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", bedrockSwitch}
	case apiAnthropic:
		return []string{"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}
	case apiOpenAI:
		return []string{"OPENAI_API_KEY", "OPENAI_BASE_URL"}
	case "codex":
		return []string{"CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
	case "gemini":
		return []string{
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL",
			"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
		}
	case "opencode", "crush": // depending on the model
		return []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"}
	case "copilot": // not GH_TOKEN, which is not for Copilot alone
		return []string{"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY"}
	default:
		return nil
	}
}

// Collect returns KEY=value pairs for the names that are set, each once, in order. Values
// are secret.
func Collect(names []string, lookup func(string) (string, bool)) []string {
	var env, seen []string
	for _, name := range names {
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
