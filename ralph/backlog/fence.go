package backlog

import (
	"context"
	"database/sql"
)

// fence is what a store knows of who uses it.
type fence struct {
	run      string         // file of the run that the caller belongs to; or ""
	agent    string         // of that run
	attempts map[string]int // given by hand, by slug
}

// fenceOf is the fence of a command that an agent's run has started, or that a
// person has.
func fenceOf(getenv func(string) string) fence {
	f := fence{run: getenv(RunEnv)}
	if f.run != "" {
		f.agent = getenv("RALPH_AGENT_ID")
	}
	return f
}

// Fence has Renew, Done, Fail and Block refuse a task, with [ErrLost], that has
// been claimed since the claim with this attempt. In a run of a loop it is not
// needed: the run knows what it has claimed.
func (s *Store) Fence(slug string, attempt int) {
	if s.fence.attempts == nil {
		s.fence.attempts = map[string]int{}
	}
	s.fence.attempts[slug] = attempt
}

// As says which agent uses the store: what others hold is refused.
func (s *Store) As(agent string) { s.fence.agent = agent }

// deleter is who deletes a task: the agent of a run, or "".
func (s *Store) deleter() string { return s.fence.agent }

// held returns what the caller claimed a task with, if that is known. The agent
// is empty if only the attempt is known.
func (s *Store) held(slug string) (attempt int, agent string, known bool) {
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

// checkFence returns [ErrLost] if the task has been claimed by somebody else
// than the caller. The transaction keeps that from happening meanwhile.
func (s *Store) checkFence(ctx context.Context, tx *sql.Tx, id, slug string) error {
	attempt, agent, known := s.held(slug)
	if !known && s.fence.agent == "" {
		return nil // the caller has not said who it is
	}
	var now int
	var assignee, status string
	err := tx.QueryRowContext(ctx, `SELECT COALESCE(CAST(attempt AS INTEGER), 0), COALESCE(assignee, ''), COALESCE(status, '')
		FROM tasks WHERE id = ?`, id).Scan(&now, &assignee, &status)
	switch {
	case err != nil:
		return err
	case known && now != attempt:
		return faultf(ErrLost, "attempt %d of task '%s' is over: attempt %d has begun since", attempt, slug, now)
	case known && agent != "" && assignee != "" && assignee != agent,
		!known && status == StatusActive && assignee != "" && assignee != s.fence.agent:
		return faultf(ErrLost, "task '%s' is held by agent '%s'", slug, assignee)
	}
	return nil
}
