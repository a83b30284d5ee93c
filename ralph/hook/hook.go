// Package hook is what Claude Code runs inside a session, so that a task goes
// back to the backlog when its session ends early.
package hook

import (
	"context"
	"fmt"
	"io"

	"github.com/docker-ralph/docker-ralph/ralph/taskprogram"
)

// The events of Claude Code that have a hook, by the name that the hook's file
// has in the original's layout.
const (
	PreCompact = "precompact"
	SessionEnd = "session_end"
)

// Events maps the hooks' names to what Claude Code calls their events.
func Events() map[string]string {
	return map[string]string{PreCompact: "PreCompact", SessionEnd: "SessionEnd"}
}

// Hook is one call of a hook.
type Hook struct {
	Getenv         func(string) string
	Stdout, Stderr io.Writer
}

// Run carries out the hook called name. There is no error: whatever is wrong,
// a session must not be disturbed by its hooks.
func (h Hook) Run(ctx context.Context, name string) {
	program, agent := taskprogram.Program{Path: h.Getenv("RALPH_TASK_SCRIPT")}, h.Getenv("RALPH_AGENT_ID")
	slug := ""
	if h.inLoop() {
		// A backlog that cannot be read has no task.
		if active, err := program.Active(ctx, agent); err == nil && len(active) > 0 {
			slug = active[0]
		}
	}
	switch {
	case name == PreCompact && slug == "":
		_, _ = fmt.Fprintln(h.Stdout, `{"continue":true}`)
	case name == PreCompact:
		_, _ = fmt.Fprintf(h.Stderr, "Warning: agent %s context limit reached, failing task %s\n", agent, slug)
		_ = program.Fail(ctx, nil, nil, slug, "context limit reached") // if not, its lease expires
		_, _ = fmt.Fprintln(h.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == SessionEnd && slug != "":
		_, _ = fmt.Fprintf(h.Stderr, "Warning: agent %s session ended, failing task %s\n", agent, slug)
		_ = program.Fail(ctx, h.Stdout, h.Stderr, slug, "session ended unexpectedly") // if not, its lease expires
	}
}

// inLoop says whether the session is that of a loop with an agent of its own.
func (h Hook) inLoop() bool {
	for _, name := range []string{"RALPH_TASK_SCRIPT", "RALPH_AGENT_ID", "RALPH_SCOPE_REPO", "RALPH_SCOPE_BRANCH"} {
		if h.Getenv(name) == "" {
			return false
		}
	}
	return true
}
