package agentconfig

import (
	"path/filepath"
	"strings"
)

// folder is a directory in which an agent has its user's settings.
type folder struct {
	variable string // names another one on the host; empty for none
	below    string // name in the folder of the variable; empty for that itself
	path     string // below the home directory, on the host and in a sandbox
	// names are the settings in it. The rest is state: sessions, histories,
	// sign-ins.
	names []string
}

// folders returns the directories of a known agent.
func folders(agent string) []folder {
	switch agent {
	case "claude":
		return []folder{{"CLAUDE_CONFIG_DIR", "", ".claude", []string{
			"settings.json", "CLAUDE.md", "keybindings.json", "agents", "commands", "hooks", "output-styles", "rules", "skills", "themes",
		}}}
	case "codex":
		return []folder{{"CODEX_HOME", "", ".codex", []string{"config.toml", "AGENTS.md", "AGENTS.override.md", "prompts", "rules", "skills"}}}
	case "gemini":
		return []folder{{"", "", ".gemini", []string{"settings.json", "GEMINI.md", "agents", "commands", "extensions", "policies", "skills"}}}
	case "crush":
		return []folder{
			{"XDG_CONFIG_HOME", "crush", ".config/crush", []string{"crush.json", "CRUSH.md", "commands", "skills"}},
			{"XDG_DATA_HOME", "crush", ".local/share/crush", []string{"crush.json", "providers.json"}},
		}
	case "opencode":
		return []folder{{"XDG_CONFIG_HOME", "opencode", ".config/opencode", []string{
			"opencode.json", "opencode.jsonc", "config.json", "tui.json", "AGENTS.md", "package.json",
			"agent", "agents", "command", "commands", "mode", "modes", "plugin", "plugins", "skill", "skills", "theme", "themes", "tool", "tools",
		}}}
	case "copilot":
		return []folder{{"COPILOT_HOME", "", ".copilot", []string{
			"config.json", "settings.json", "mcp-config.json", "copilot-instructions.md", "agents", "hooks", "instructions", "skills",
		}}}
	default:
		return nil
	}
}

// on returns the path of the directory on the host; empty if unknown.
func (f folder) on(home string, lookup func(string) (string, bool)) string {
	if f.variable != "" && lookup != nil {
		if dir, _ := lookup(f.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, f.below)
		}
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, filepath.FromSlash(f.path))
}

// secretFile reports whether the name of a file is that of one with secrets.
func secretFile(name string) bool {
	name = strings.ToLower(name)
	for _, exact := range []string{".credentials.json", "auth.json", "oauth_creds.json", "google_accounts.json", "mcp-oauth-tokens.json", ".netrc", ".npmrc", ".pypirc", ".git", "node_modules"} {
		if name == exact {
			return true
		}
	}
	for _, end := range []string{".pem", ".key", ".p12", ".pfx", ".kdbx"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, ".env") || strings.HasPrefix(name, "id_rsa") || strings.HasPrefix(name, "id_ed25519") ||
		strings.HasPrefix(name, "credentials")
}
