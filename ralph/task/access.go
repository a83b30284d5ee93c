package task

import (
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Access is what a command may change.
type Access int

const (
	// AccessUser may change everything.
	AccessUser Access = iota
	// AccessAgent may claim and create tasks, and change those that it holds.
	AccessAgent
)

// maxArgument bounds an argument of an agent, in bytes.
const maxArgument = 256 << 10

// authorize refuses commands that are for users only. The store checks that an agent holds the task that it changes.
func (s *session) authorize(name string, args []string) error {
	if s.Access != AccessAgent {
		return nil
	}
	for _, arg := range args {
		if len(arg) > maxArgument {
			return fmt.Errorf("argument is longer than %d bytes", maxArgument)
		}
	}
	switch name {
	case "peek", "list", "show", "deps", "plan-status", "questions", "export", "_get-scope", "_render-md", // read
		"claim", "create",
		"renew", "done", "fail", "ask", "update", "block", "unblock": // what it holds
		return nil
	case "plan-export": // it has its own error
		return nil
	case "plan-sync":
		if s.Command != "build" {
			return nil
		}
	case "agent":
		if len(args) > 0 && args[0] == "list" {
			return nil
		}
		if len(args) > 0 {
			name += " " + args[0]
		}
	}
	return userOnly(name)
}

func userOnly(command string) error {
	return hint.Wrap(fmt.Errorf("only a user may run %q", "task "+command), "run %q outside of the sandbox", "docker ralph task "+command)
}

// agentFlag returns the default of --agent.
func (s *session) agentFlag() option {
	if s.Access == AccessAgent {
		return option{value: s.Agent}
	}
	return option{value: s.Getenv("RALPH_AGENT_ID")}
}

// checkAgent refuses another agent than that of the session.
func (s *session) checkAgent(agent option) error {
	if s.Access == AccessAgent && agent.value != s.Agent {
		return fmt.Errorf("--agent must be the agent of this session (%q), got: %s", s.Agent, agent.value)
	}
	return nil
}
