package agent

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
