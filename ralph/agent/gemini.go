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
		decoder: stream.Gemini, command: geminiCommand, interactive: geminiInterface,
	}
}

// geminiCommand trusts the worktree only in a sandbox or with --danger.
func geminiCommand(_ context.Context, s Session, cmd *Command) error {
	cmd.Args = []string{"--output-format", "stream-json"}
	if s.Sandboxed || s.Danger {
		cmd.Args = append(cmd.Args, "--skip-trust")
	}
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--approval-mode", "yolo")
	} else {
		path, err := geminiPolicy(s)
		if err != nil {
			return err
		}
		mode := "default"
		if mayEdit(s) {
			mode = "auto_edit"
		}
		cmd.Args = append(cmd.Args, "--approval-mode", mode, "--policy", path)
	}
	cmd.model(s)
	cmd.Args = append(cmd.Args, "-p", "Do what is written above.")
	geminiEnvironment(s, cmd)
	return nil
}

func geminiInterface(s Session, cmd *Command) error {
	if s.Sandboxed || s.Danger {
		cmd.Args = append(cmd.Args, "--skip-trust")
	}
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--approval-mode", "yolo")
	}
	cmd.model(s)
	geminiEnvironment(s, cmd)
	return nil
}

func geminiEnvironment(s Session, cmd *Command) {
	if s.Getenv("GEMINI_API_KEY") != "" && s.Getenv("GEMINI_DEFAULT_AUTH_TYPE") == "" && s.Getenv("GOOGLE_GENAI_USE_VERTEXAI") == "" {
		cmd.Env = append(cmd.Env, "GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key")
	}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "GEMINI_TELEMETRY_ENABLED=false")
	}
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
