package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// keys are the variables for the API key of each agent.
var keys = map[string][]string{
	"claude":   {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
	"codex":    {"CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"},
	"gemini":   {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
	"opencode": {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
	"crush":    {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
	"copilot":  {"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"},
}

// Keys returns the variables for the API key of an agent. Those of a custom agent are
// unknown.
func Keys(name string) []string { return keys[name] }

// KeyError returns the error for a missing or rejected key, with the variables as a hint.
func KeyError(name, message string, getenv func(string) string) error {
	rejected := fmt.Errorf("%s: the model's endpoint rejected the key: %s", name, message)
	known := Keys(name)
	set := slices.DeleteFunc(slices.Clone(known), func(key string) bool { return getenv == nil || getenv(key) == "" })
	switch {
	case len(set) > 0:
		return hint.Wrap(rejected, "check the value of %s", strings.Join(set, " and "))
	case len(known) > 0:
		return hint.Wrap(fmt.Errorf("%s has no key: %s", name, message), "set %s", strings.Join(known, " or "))
	}
	return hint.Wrap(rejected, "check keys of [agents.%s], and env.pass", name)
}
