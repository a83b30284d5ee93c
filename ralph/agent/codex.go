package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// codex is OpenAI's Codex CLI.
func codex() Adapter {
	return headless{
		name: "codex", install: "npm install -g @openai/codex", backend: "openai",
		decoder: stream.Codex, command: codexCommand, interactive: codexInterface,
	}
}

// codexCommand restricts codex to the worktree by its own sandbox, unless bypassed.
func codexCommand(ctx context.Context, s Session, cmd *Command) error {
	// A login shell would reset PATH.
	cmd.Args = []string{"exec", "--json", "--skip-git-repo-check", "--config", "allow_login_shell=false"}
	if s.Sandboxed {
		cmd.Args = append(cmd.Args, "--config", "check_for_update_on_startup=false", "--config", "analytics.enabled=false")
	}
	cmd.Args = append(cmd.Args, codexEndpoint(s)...)
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--dangerously-bypass-approvals-and-sandbox")
	} else {
		cmd.Args = append(cmd.Args, "--sandbox", "workspace-write")
		// To codex, .git is not part of the worktree. Without a sandbox, files written
		// there could break out.
		if dir := gitDir(ctx); s.Sandboxed && dir != "" {
			cmd.Args = append(cmd.Args, "--add-dir", dir)
		}
	}
	cmd.model(s)
	cmd.Args = append(cmd.Args, "-")
	return codexHome(s)
}

// codexHome creates CODEX_HOME, which must exist.
func codexHome(s Session) error {
	if home := s.Getenv("CODEX_HOME"); home != "" {
		if err := os.MkdirAll(home, 0o700); err != nil {
			return fmt.Errorf("creating the directory of codex: %w", err)
		}
	}
	return nil
}

// codexInterface trusts the worktree in a sandbox.
func codexInterface(s Session, cmd *Command) error {
	cmd.Args = []string{"--config", "allow_login_shell=false"}
	if s.Sandboxed {
		cmd.Args = append(cmd.Args, "--config", "check_for_update_on_startup=false", "--config", "analytics.enabled=false")
		if dir, err := os.Getwd(); err == nil {
			cmd.Args = append(cmd.Args, "--config", fmt.Sprintf("projects={%q={trust_level=\"trusted\"}}", dir))
		}
	}
	cmd.Args = append(cmd.Args, codexEndpoint(s)...)
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--dangerously-bypass-approvals-and-sandbox")
	}
	cmd.model(s)
	return codexHome(s)
}

// codexEndpoint configures the user's endpoint, for which codex has no variable. A custom
// provider uses plain HTTP; the built-in one would try WebSockets first.
func codexEndpoint(s Session) []string {
	endpoint := s.Getenv("OPENAI_BASE_URL")
	if endpoint == "" {
		return nil
	}
	key := "OPENAI_API_KEY"
	if s.Getenv("CODEX_API_KEY") != "" {
		key = "CODEX_API_KEY"
	}
	provider := fmt.Sprintf("{name=\"endpoint\", base_url=%q, env_key=%q, wire_api=\"responses\"}", endpoint, key)
	return []string{"--config", "model_provider=\"endpoint\"", "--config", "model_providers.endpoint=" + provider}
}

// gitDir returns the common git directory of the current directory, or "".
func gitDir(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--path-format=absolute", "--git-common-dir").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
