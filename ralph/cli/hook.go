package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
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
	var store *backlog.Store
	if inLoop() {
		var err error
		if store, err = backlog.OpenHere(ctx, os.Getenv); err == nil {
			defer func() { _ = store.Close() }() // every change is committed
			held, _ := store.List(ctx, backlog.Filter{Statuses: []string{backlog.StatusActive}, Assignee: agentID})
			if len(held) > 0 {
				slug = held[0].Slug
			}
		}
	}
	shown := termsafe.Strip(slug)
	switch {
	case name == agent.PreCompact && slug == "":
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":true}`)
	case name == agent.PreCompact:
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s context limit reached, failing task %s\n", agentID, shown)
		_ = store.Fail(ctx, slug, "context limit reached")
		_, _ = fmt.Fprintln(o.Stdout, `{"continue":false,"stopReason":"Context Limit Reached"}`)
	case name == agent.SessionEnd && slug != "" && os.Getenv(backlog.RunEnv) == "":
		_, _ = fmt.Fprintf(o.Stderr, "Warning: agent %s session ended, failing task %s\n", agentID, shown)
		if err := store.Fail(ctx, slug, "session ended unexpectedly"); err != nil {
			o.fail(err)
			return
		}
		_, _ = fmt.Fprintf(o.Stdout, "failed %s\n", shown)
	}
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
