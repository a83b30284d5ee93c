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

// hook handles an event of a Claude Code session: it fails the active task when the
// session ends early. It ignores errors, which would disturb the session.
func (o Options) hook(ctx context.Context, name string) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // signals to the session reach its hooks too
	agentID, slug := os.Getenv("RALPH_AGENT_ID"), ""
	if inLoop() {
		slug = active(ctx, agentID)
	}
	switch {
	case name == agent.PreCompact && slug == "":
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":true}`)
	case name == agent.PreCompact:
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s context limit reached, failing task %s\n", agentID, slug)
		runTask(ctx, io.Discard, io.Discard, "fail", slug, "--reason", "context limit reached") // or else its lease expires
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == agent.SessionEnd && slug != "":
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s session ended, failing task %s\n", agentID, slug)
		runTask(ctx, o.Stdout, o.Stderr, "fail", slug, "--reason", "session ended unexpectedly") // or else its lease expires
	}
}

// active returns the agent's first active task, or "".
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

// runTask runs "ralph task" and returns its exit code.
func runTask(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return task.Run(ctx, args, task.IO{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: os.Getenv})
}

// inLoop reports whether the session belongs to a loop with a registered agent.
func inLoop() bool {
	for _, name := range []string{"RALPH_TASK_SCRIPT", "RALPH_AGENT_ID", "RALPH_SCOPE_REPO", "RALPH_SCOPE_BRANCH"} {
		if os.Getenv(name) == "" {
			return false
		}
	}
	return true
}
