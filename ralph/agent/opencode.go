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

// opencodePlugin makes opencode end when its model refuses to work for a
// while, and say why. By itself it tries again for ever, and reports nothing.
//
//go:embed opencode.js
var opencodePlugin []byte

// opencode is opencode, version 1 or 2.
func opencode() Adapter {
	return headless{
		name: "opencode", install: "npm install -g opencode-ai",
		decoder: stream.Opencode, command: opencodeCommand, interactive: opencodeInterface,
	}
}

func opencodeCommand(ctx context.Context, s Session, cmd *Command) error {
	cmd.Args = []string{"run", "--format", "json"}
	if opencodeServes(ctx, s, cmd.Path) {
		// By itself it would leave its work to a server that other sandboxes
		// and sessions share.
		cmd.Args = append(cmd.Args, "--standalone")
	} else if err := opencodeAddPlugin(s, cmd); err != nil {
		return err
	}
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--auto")
	} else if s.Getenv("OPENCODE_PERMISSION") == "" {
		cmd.Env = append(cmd.Env, "OPENCODE_PERMISSION="+opencodePermissions(s))
	}
	cmd.model(s)
	opencodeEnvironment(s, cmd)
	return nil
}

// opencodeInterface: by itself opencode asks hardly anything, so without bypass
// it is told to.
func opencodeInterface(s Session, cmd *Command) error {
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--auto")
	} else if s.Getenv("OPENCODE_PERMISSION") == "" {
		cmd.Env = append(cmd.Env, `OPENCODE_PERMISSION={"bash":"ask","edit":"ask"}`)
	}
	cmd.model(s)
	opencodeEnvironment(s, cmd)
	return nil
}

func opencodeEnvironment(s Session, cmd *Command) {
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_SHARE=1")
	}
}

// opencodeServes says whether this is a version that starts a server: 2 or
// later. One that does not say what it is counts as version 1.
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

// opencodePermissions allow what the prompt allows. Its own default is
// everything. What is not allowed is denied: asking would end the run.
func opencodePermissions(s Session) string {
	bash := map[string]string{"*": "deny"}
	for _, c := range allowedCommands(s) {
		bash[c+" *"] = "allow"
	}
	permissions := map[string]any{"bash": bash}
	if !mayEdit(s) {
		permissions["edit"] = "deny"
	}
	b, _ := json.Marshal(permissions) // holds nothing that cannot be encoded
	return string(b)
}

// opencodeAddPlugin adds our plugin to those of the user. A configuration in
// the environment that is not plain JSON stays as it is.
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
