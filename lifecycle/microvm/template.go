package microvm

// Template returns the image that Docker provides for an agent, or false if it
// provides none (contract, section 9.3).
func Template(agent string) (image string, ok bool) {
	tag, ok := map[string]string{
		"claude": "claude-code", "codex": "codex", "copilot": "copilot", "gemini": "gemini", "opencode": "opencode", "shell": "shell",
	}[agent]
	if !ok {
		return "", false
	}
	return "docker/sandbox-templates:" + tag, true
}
