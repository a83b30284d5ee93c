package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// gemini is Google's Gemini CLI.
func gemini() Adapter {
	return headless{
		name: "gemini", install: "npm install -g @google/gemini-cli", backend: "google",
		decoder: stream.Gemini, command: geminiCommand,
	}
}

// geminiCommand trusts the worktree only in a sandbox or with --danger.
func geminiCommand(_ context.Context, s Session, cmd *Command, interactive bool) error {
	if !interactive {
		cmd.add("--output-format", "stream-json")
	}
	if s.Sandboxed || s.Danger {
		cmd.add("--skip-trust")
	}
	if bypassed(s) {
		cmd.add("--approval-mode", "yolo")
	} else if !interactive {
		path, err := geminiPolicy(s)
		if err != nil {
			return err
		}
		mode := "default"
		if mayEdit(s) {
			mode = "auto_edit"
		}
		cmd.add("--approval-mode", mode, "--policy", path)
	}
	cmd.model(s)
	if !interactive {
		cmd.add("-p", "Do what is written above.")
	}
	if s.Getenv("GEMINI_API_KEY") != "" && s.Getenv("GEMINI_DEFAULT_AUTH_TYPE") == "" && s.Getenv("GOOGLE_GENAI_USE_VERTEXAI") == "" {
		cmd.Env = append(cmd.Env, "GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key")
	}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "GEMINI_TELEMETRY_ENABLED=false")
	}
	return nil
}

// geminiPolicy writes the allowed commands to a policy file and returns its path.
func geminiPolicy(s Session) (string, error) {
	var prefixes []string
	for _, c := range allowedCommands(s) {
		prefixes = append(prefixes, fmt.Sprintf("%q", c)) // words need no other quoting
	}
	var policy string
	if len(prefixes) > 0 {
		policy = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [" + strings.Join(prefixes, ", ") +
			"]\ndecision = \"allow\"\npriority = 100\n"
	}
	path := filepath.Join(s.TempDir, "gemini-policy.toml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		return "", fmt.Errorf("writing the policy of gemini: %w", err)
	}
	return path, nil
}
