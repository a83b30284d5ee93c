package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// keys are the variables that each agent takes the key of its model from.
var keys = map[string][]string{
	"claude":   {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
	"codex":    {"CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"},
	"gemini":   {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
	"opencode": {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
	"crush":    {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
	"copilot":  {"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"},
}

// Keys returns the names of the variables that may hold the key of an agent's
// model. An agent of the user's own has none that is known.
func Keys(name string) []string { return keys[name] }

// KeyError is the error of an agent whose key is refused, or that has none. It says
// which variables to look at.
func KeyError(name, said string, getenv func(string) string) error {
	refused := fmt.Errorf("%s: the model's endpoint refused the key: %s", name, said)
	known := Keys(name)
	set := slices.DeleteFunc(slices.Clone(known), func(key string) bool { return getenv == nil || getenv(key) == "" })
	switch {
	case len(set) > 0:
		return hint.Wrap(refused, "check the value of %s", strings.Join(set, " and "))
	case len(known) > 0:
		return hint.Wrap(fmt.Errorf("%s has no key: %s", name, said), "set %s", strings.Join(known, " or "))
	}
	return refused
}
