// Package hook is what Claude Code runs inside a session, so that a task goes
// back to the backlog when its session ends early.
package hook

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
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

// session is what a hook works with.
type session struct{ task, agent string }

// Run carries out the hook called name. There is no error: whatever is wrong,
// a session must not be disturbed by its hooks.
func (h Hook) Run(ctx context.Context, name string) {
	slug, s := h.activeTask(ctx)
	switch {
	case name == PreCompact && slug == "":
		_, _ = fmt.Fprintln(h.Stdout, `{"continue":true}`)
	case name == PreCompact:
		_, _ = fmt.Fprintf(h.Stderr, "Warning: agent %s context limit reached, failing task %s\n", s.agent, slug)
		_ = exec.CommandContext(ctx, s.task, "fail", slug, "--reason", "context limit reached").Run() // its lease expires
		_, _ = fmt.Fprintln(h.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == SessionEnd && slug != "":
		_, _ = fmt.Fprintf(h.Stderr, "Warning: agent %s session ended, failing task %s\n", s.agent, slug)
		fail := exec.CommandContext(ctx, s.task, "fail", slug, "--reason", "session ended unexpectedly")
		fail.Stdout = h.Stdout
		_ = fail.Run() // its lease expires
	}
}

// activeTask returns the first task that the session's agent holds. Outside a
// loop there is none, and a backlog that cannot be read has none either.
func (h Hook) activeTask(ctx context.Context) (slug string, s session) {
	for _, name := range []string{"RALPH_TASK_SCRIPT", "RALPH_AGENT_ID", "RALPH_SCOPE_REPO", "RALPH_SCOPE_BRANCH"} {
		if h.Getenv(name) == "" {
			return "", s
		}
	}
	s = session{task: h.Getenv("RALPH_TASK_SCRIPT"), agent: h.Getenv("RALPH_AGENT_ID")}
	out, err := exec.CommandContext(ctx, s.task, "list", "--status", "active", "--assignee", s.agent, "--markdown").Output()
	if err != nil {
		return "", s
	}
	for line := range strings.Lines(string(out)) {
		if id, found := strings.CutPrefix(line, "id: "); found {
			return strings.TrimSuffix(id, "\n"), s
		}
	}
	return "", s
}
