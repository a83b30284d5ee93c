package agent

import (
	"context"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// crush is Charm's Crush. It prints text only.
func crush() Adapter {
	return headless{
		name: "crush", install: "npm install -g @charmland/crush",
		decoder: event.PlainText, command: crushCommand, asksNothing: true,
	}
}

func crushCommand(_ context.Context, s Session, cmd *Command) error {
	cmd.Args = []string{"run", "--quiet"}
	cmd.model(s)
	// Not with a server that other sessions share.
	cmd.Env = []string{"CRUSH_CLIENT_SERVER=0"}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1")
	}
	return nil
}
