package agent

import (
	"context"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// copilot is GitHub's Copilot CLI.
func copilot() Adapter {
	return headless{
		name: "copilot", install: "npm install -g @github/copilot", backend: "github",
		decoder: stream.Copilot, command: copilotCommand,
	}
}

// copilotCommand passes the prompt on standard input, like -p.
func copilotCommand(_ context.Context, s Session, cmd *Command, interactive bool) error {
	if !interactive {
		cmd.add("--output-format", "json", "--no-ask-user")
	}
	if bypassed(s) {
		cmd.add("--allow-all")
	} else if !interactive {
		cmd.add(copilotRules(s)...)
	}
	cmd.model(s)
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "COPILOT_AUTO_UPDATE=false")
	}
	return nil
}

// copilotRules returns the permission flags. Copilot has rules for subcommands of few
// programs, so all of ralph is allowed except starting agents.
func copilotRules(s Session) []string {
	var rules []string
	if mayEdit(s) {
		rules = append(rules, "--allow-tool", "write")
	}
	for _, c := range allowedCommands(s) {
		if program, _, _ := strings.Cut(c, " "); program != "git" {
			c = program
		}
		if rule := "shell(" + c + ":*)"; !slices.Contains(rules, rule) {
			rules = append(rules, "--allow-tool", rule)
		}
	}
	for _, c := range []string{"ralph build", "ralph plan"} {
		rules = append(rules, "--deny-tool", "shell("+c+":*)")
	}
	return rules
}
