package backlog

import (
	"context"
	"database/sql"
)

// fence identifies the caller of a store.
type fence struct {
	run      string         // record of the caller's run, if any
	agent    string         // agent of that run
	attempts map[string]int // passed by the caller, by slug
}

// fenceFromEnv returns the fence of a command; it is empty outside of a run.
func fenceFromEnv(getenv func(string) string) fence {
	f := fence{run: getenv(RunEnv)}
	if f.run != "" {
		f.agent = getenv("RALPH_AGENT_ID")
	}
	return f
}

// Fence makes Renew, Done, Fail and Block return [ErrLost] for a task that has
// been claimed again since this attempt. Commands in a run of a loop need no
// Fence: the run record has their claims.
func (s *Store) Fence(slug string, attempt int) {
	if s.fence.attempts == nil {
		s.fence.attempts = map[string]int{}
	}
	s.fence.attempts[slug] = attempt
}

// As sets the agent that uses the store. Tasks of other agents are refused with
// [ErrLost].
func (s *Store) As(agent string) { s.fence.agent = agent }

// claimed returns the attempt and agent of the caller's claim, if known. The agent
// is empty if the attempt was passed to [Store.Fence].
func (s *Store) claimed(slug string) (attempt int, agent string, known bool) {
	if attempt, known = s.fence.attempts[slug]; known || s.fence.run == "" {
		return attempt, "", known
	}
	for _, e := range readEntries(s.fence.run) {
		if e.Op == opClaim && e.Slug == slug && e.Scope == s.scope {
			attempt, agent, known = e.Attempt, e.Agent, true
		}
	}
	return attempt, agent, known
}

// checkFence returns [ErrLost] if the task has been claimed by another agent.
func (s *Store) checkFence(ctx context.Context, tx *sql.Tx, id, slug string) error {
	attempt, agent, known := s.claimed(slug)
	if !known && s.fence.agent == "" {
		return nil
	}
	var now int
	var assignee, status string
	err := tx.QueryRowContext(ctx, `SELECT COALESCE(CAST(attempt AS INTEGER), 0), COALESCE(assignee, ''), COALESCE(status, '')
		FROM tasks WHERE id = ?`, id).Scan(&now, &assignee, &status)
	switch {
	case err != nil:
		return err
	case known && now != attempt:
		return faultf(ErrLost, "attempt %d of task '%s' was superseded by attempt %d", attempt, slug, now)
	case known && agent != "" && assignee != "" && assignee != agent,
		!known && status == StatusActive && assignee != "" && assignee != s.fence.agent:
		return faultf(ErrLost, "task '%s' is held by agent '%s'", slug, assignee)
	}
	return nil
}
