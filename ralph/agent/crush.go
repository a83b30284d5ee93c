package agent

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

// crush is Charm's Crush. It prints text only.
func crush() Adapter {
	return headless{
		name: "crush", install: "npm install -g @charmland/crush",
		decoder: event.PlainText, command: crushCommand, interactive: crushInterface, noPermissions: true,
	}
}

func crushCommand(_ context.Context, s Session, cmd *Command) error {
	cmd.Args = []string{"run", "--quiet"}
	cmd.model(s)
	crushEnvironment(s, cmd)
	return nil
}

// crushInterface: the interactive crush has no flag for the model.
func crushInterface(s Session, cmd *Command) error {
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--yolo")
	}
	if s.Model != "" {
		cmd.Warning = fmt.Sprintf("--model is ignored: select %s in crush", s.Model)
	}
	crushEnvironment(s, cmd)
	return nil
}

func crushEnvironment(s Session, cmd *Command) {
	// No server that other sessions share.
	cmd.Env = []string{"CRUSH_CLIENT_SERVER=0"}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1")
	}
}
