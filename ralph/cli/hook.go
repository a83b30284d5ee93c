package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// hook handles an event of a Claude Code session: it fails the first active task when
// the session ends early, unless a loop does so, which knows the reason. It ignores errors,
// which would disturb the session: the task's lease will expire.
func (o Options) hook(ctx context.Context, name string) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // signals to the session reach its hooks too
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	agentID, slug := os.Getenv("RALPH_AGENT_ID"), ""
	run, err := o.taskRunner()
	if err == nil && inLoop() {
		slug = firstActive(ctx, run, agentID)
	}
	shown := termsafe.Strip(slug)
	switch {
	case name == agent.PreCompact && slug == "":
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":true}`)
	case name == agent.PreCompact:
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s context limit reached, failing task %s\n", agentID, shown)
		_, _ = run(ctx, []string{"fail", slug, "--reason", "context limit reached"})
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == agent.SessionEnd && slug != "" && os.Getenv(agent.RunEnv) == "":
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s session ended, failing task %s\n", agentID, shown)
		answer, err := run(ctx, []string{"fail", slug, "--reason", "session ended unexpectedly"})
		if err != nil {
			o.fail(err)
			return
		}
		_, _ = o.Stderr.Write(answer.Stderr)
		_, _ = o.Stdout.Write(answer.Stdout)
	}
}

// firstActive returns the first active task of an agent, or "".
func firstActive(ctx context.Context, run func(context.Context, []string) (session.TaskResponse, error), agentID string) string {
	answer, err := run(ctx, []string{"list", "--status", backlog.StatusActive, "--assignee", agentID, "--format", "json"})
	var held []taskjson.Task
	if err != nil || json.Unmarshal(answer.Stdout, &held) != nil || len(held) == 0 {
		return ""
	}
	return held[0].ID
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
