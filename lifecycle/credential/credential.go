// Package credential knows which of the host's environment variables an agent
// needs to reach its model, and collects those that may go into a sandbox.
package credential

import "slices"

// Names returns the variables of an agent's API keys and endpoint; none for an
// agent that needs no model or is not known.
func Names(agent string) []string {
	switch agent {
	case "claude":
		return []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"}
	default:
		return nil
	}
}

// Collect returns KEY=value pairs for those of the names that are set, each
// once, in order. Values are secret.
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
