package agent

import (
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// endpoints are the variables for the endpoint of each agent.
var endpoints = map[string][]string{
	"claude":   {"ANTHROPIC_BASE_URL"},
	"codex":    {"OPENAI_BASE_URL"},
	"gemini":   {"GOOGLE_GEMINI_BASE_URL"},
	"opencode": {"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"},
	"crush":    {"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"},
	"copilot":  {"COPILOT_PROVIDER_BASE_URL"},
}

// ModelError returns the error for a model that cannot be used until a setting is changed, with
// the setting as a hint.
func ModelError(name string, fault stream.Fault, message string, getenv func(string) string) error {
	var what, remedy string
	switch fault {
	case stream.Unpaid:
		what, remedy = "the model's account has no credit", "add credit to the account, or use another key"
	case stream.UnknownModel:
		what, remedy = "the model is not available to this account", "set another model with -m, or model under [agent]"
	case stream.UnknownEndpoint, stream.UnknownHost:
		what, remedy = "the model's endpoint does not exist", "check the network, and the agent's endpoint"
		if variables := endpoints[name]; len(variables) > 0 {
			remedy = "check the network, and the value of " + strings.Join(variables, " or ")
		}
	case stream.PromptTooLong:
		what, remedy = "the prompt is too long for the model", "shorten .ralph/prompts, the agent's instructions and the task, or set a model with a larger context with -m"
	case stream.Denied:
		what, remedy = "its settings deny every tool call", "change the hooks and permissions in your settings of the agent or in the project's, or leave yours out with --no-host-config"
	default:
		return KeyError(name, message, getenv)
	}
	return hint.Wrap(fmt.Errorf("%s: %s: %s", name, what, message), "%s", remedy)
}
