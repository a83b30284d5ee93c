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
		decoder: event.PlainText, command: crushCommand, noPermissions: true,
	}
}

// crushCommand: the interactive crush has no flag for the model.
func crushCommand(_ context.Context, s Session, cmd *Command, interactive bool) error {
	if !interactive {
		cmd.add("run", "--quiet")
		cmd.model(s)
	} else {
		if bypassed(s) {
			cmd.add("--yolo")
		}
		if s.Model != "" {
			cmd.Warning = fmt.Sprintf("--model is ignored: select %s in crush", s.Model)
		}
	}
	// No server that other sessions share.
	cmd.Env = []string{"CRUSH_CLIENT_SERVER=0"}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1")
	}
	return nil
}
