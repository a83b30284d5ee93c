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
		decoder: stream.Codex, command: codexCommand,
	}
}

// codexCommand restricts codex to the worktree by its own sandbox, unless bypassed.
func codexCommand(ctx context.Context, s Session, cmd *Command, interactive bool) error {
	if !interactive {
		cmd.add("exec", "--json", "--skip-git-repo-check")
	}
	cmd.add("--config", "allow_login_shell=false") // a login shell would reset PATH
	if s.Sandboxed {
		cmd.add("--config", "check_for_update_on_startup=false", "--config", "analytics.enabled=false")
		if dir, err := os.Getwd(); err == nil && interactive {
			cmd.add("--config", fmt.Sprintf("projects={%q={trust_level=\"trusted\"}}", dir))
		}
	}
	cmd.add(codexEndpoint(s)...)
	if bypassed(s) {
		cmd.add("--dangerously-bypass-approvals-and-sandbox")
	} else if !interactive {
		cmd.add("--sandbox", "workspace-write")
		// To codex, .git is not part of the worktree. Without a sandbox, files written
		// there could break out.
		if dir := gitDir(ctx); s.Sandboxed && dir != "" {
			cmd.add("--add-dir", dir)
		}
	}
	cmd.model(s)
	if !interactive {
		cmd.add("-")
	}
	if home := s.Getenv("CODEX_HOME"); home != "" { // it must exist
		if err := os.MkdirAll(home, 0o700); err != nil {
			return fmt.Errorf("creating the directory of codex: %w", err)
		}
	}
	return nil
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
