package agent

import (
	"context"
	_ "embed" // for the plugin
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// opencodePlugin makes opencode report a rate limit and exit. By default it retries
// forever without a message.
//
//go:embed opencode.js
var opencodePlugin []byte

// opencode is opencode, version 1 or 2.
func opencode() Adapter {
	return headless{
		name: "opencode", install: "npm install -g opencode-ai",
		decoder: stream.Opencode, command: opencodeCommand,
	}
}

func opencodeCommand(ctx context.Context, s Session, cmd *Command, interactive bool) error {
	permissions := `{"bash":"ask","edit":"ask"}`
	if !interactive {
		permissions = opencodePermissions(s)
		cmd.add("run", "--format", "json")
		if opencodeServes(ctx, s, cmd.Path) {
			// The default is a server shared by all sandboxes and sessions.
			cmd.add("--standalone")
		} else if err := opencodeAddPlugin(s, cmd); err != nil {
			return err
		}
	}
	if bypassed(s) {
		cmd.add("--auto")
	} else if s.Getenv("OPENCODE_PERMISSION") == "" {
		cmd.Env = append(cmd.Env, "OPENCODE_PERMISSION="+permissions)
	}
	cmd.model(s)
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_SHARE=1")
	}
	return nil
}

// opencodeServes reports whether this is version 2 or later, which starts a server. An
// unknown version counts as 1.
func opencodeServes(ctx context.Context, s Session, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = s.Env
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	return err == nil && major != "" && major != "0" && major != "1"
}

// opencodePermissions allows only what the prompt allows. Everything else is denied:
// asking would end the run.
func opencodePermissions(s Session) string {
	bash := map[string]string{"*": "deny"}
	for _, c := range allowedCommands(s) {
		bash[c+" *"] = "allow"
	}
	permissions := map[string]any{"bash": bash}
	if !mayEdit(s) {
		permissions["edit"] = "deny"
	}
	b, _ := json.Marshal(permissions) // cannot fail
	return string(b)
}

// opencodeAddPlugin adds the plugin to the user's. A configuration in the environment
// that is not plain JSON is not changed.
func opencodeAddPlugin(s Session, cmd *Command) error {
	path := filepath.Join(s.TempDir, "opencode.js")
	if err := os.WriteFile(path, opencodePlugin, 0o600); err != nil {
		return fmt.Errorf("writing the plugin for opencode: %w", err)
	}
	config := map[string]any{}
	if own := s.Getenv("OPENCODE_CONFIG_CONTENT"); own != "" && json.Unmarshal([]byte(own), &config) != nil {
		return nil
	}
	plugins, _ := config["plugin"].([]any)
	config["plugin"] = append(plugins, (&url.URL{Scheme: "file", Path: path}).String())
	b, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing the configuration of opencode: %w", err)
	}
	cmd.Env = append(cmd.Env, "OPENCODE_CONFIG_CONTENT="+string(b))
	return nil
}
