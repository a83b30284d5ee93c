package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/task"
)

// hook carries out what Claude Code runs in a session for one of its events, so that
// a task goes back to the backlog when its session ends early. There is no error:
// whatever is wrong, a session must not be disturbed by its hooks.
func (o Options) hook(ctx context.Context, name string) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // what ends the session reaches its hooks too
	agentID, slug := os.Getenv("RALPH_AGENT_ID"), ""
	if inLoop() {
		slug = active(ctx, agentID)
	}
	switch {
	case name == agent.PreCompact && slug == "":
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":true}`)
	case name == agent.PreCompact:
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s context limit reached, failing task %s\n", agentID, slug)
		runTask(ctx, io.Discard, io.Discard, "fail", slug, "--reason", "context limit reached") // if not, its lease expires
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == agent.SessionEnd && slug != "":
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s session ended, failing task %s\n", agentID, slug)
		runTask(ctx, o.Stdout, o.Stderr, "fail", slug, "--reason", "session ended unexpectedly") // if not, its lease expires
	}
}

// active is the first active task of the agent; empty if there is none, and if the
// backlog cannot be read.
func active(ctx context.Context, agentID string) string {
	var out strings.Builder
	if runTask(ctx, &out, io.Discard, "list", "--status", "active", "--assignee", agentID, "--markdown") != 0 {
		return ""
	}
	for line := range strings.Lines(out.String()) {
		if slug, found := strings.CutPrefix(line, "id: "); found {
			return strings.TrimSpace(slug)
		}
	}
	return ""
}

// runTask carries out "ralph task", and returns its exit code.
func runTask(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return task.Run(ctx, args, task.IO{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: os.Getenv})
}

// inLoop says whether the session is that of a loop with an agent of its own.
func inLoop() bool {
	for _, name := range []string{"RALPH_TASK_SCRIPT", "RALPH_AGENT_ID", "RALPH_SCOPE_REPO", "RALPH_SCOPE_BRANCH"} {
		if os.Getenv(name) == "" {
			return false
		}
	}
	return true
}
