package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// tasks implements the loop's queries. It opens the database for each one: an agent may
// replace the file meanwhile.
type tasks struct {
	path  string
	scope backlog.Scope
}

func (t tasks) with(ctx context.Context, f func(*backlog.Store) error) error {
	store, err := backlog.Open(ctx, t.path, t.scope)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

func (t tasks) Status(ctx context.Context) (status loop.Status, err error) {
	err = t.with(ctx, func(s *backlog.Store) error {
		counts, err := s.Counts(ctx)
		status = loop.Status{Open: counts.Open, Active: counts.Active, Done: counts.Done, Blocked: counts.Failed, Waiting: counts.Waiting, Question: counts.Questions}
		return err
	})
	return status, err
}

func (t tasks) Tasks(ctx context.Context) (map[string]loop.Task, error) {
	states := map[string]loop.Task{}
	err := t.with(ctx, func(s *backlog.Store) error {
		all, err := s.List(ctx, backlog.Filter{All: true})
		if err != nil {
			return err
		}
		agents, err := s.AgentIDs(ctx)
		if err != nil {
			return err
		}
		now := time.Now().UTC().Format(time.DateTime)
		for _, task := range all {
			content, err := json.Marshal([]any{
				task.Title, task.Description, task.Category, task.Priority, task.SpecRef, task.Ref, task.Steps, task.Deps,
			})
			if err != nil {
				return fmt.Errorf("encoding task %s: %w", task.Slug, err)
			}
			state := loop.Task{
				Title: task.Title, Status: task.Status, Assignee: task.Assignee, Foreign: agents[task.Assignee],
				Attempt: task.Attempt, Retries: task.RetryCount, Reason: task.FailReason, Result: task.Result,
				Leased: task.LeaseExpiresAt >= now, Content: string(content),
			}
			if q, pending := task.Pending(); pending {
				asked := question(q)
				state.Question = &asked
			}
			for _, q := range task.Answered() {
				state.Answered = append(state.Answered, question(q))
			}
			if state.Status == backlog.StatusWaiting {
				state.Status = backlog.StatusOpen // it becomes so without a change
			}
			states[task.Slug] = state
		}
		return nil
	})
	return states, err
}

func question(q backlog.Question) loop.Question {
	return loop.Question{Text: q.Text, Options: q.Options, Default: q.Default, DefaultAt: q.DefaultAt, Answer: q.Answer}
}

func (t tasks) ApplyDefaults(ctx context.Context) (slugs []string, err error) {
	err = t.with(ctx, func(s *backlog.Store) (err error) {
		slugs, err = s.ApplyDefaults(ctx)
		return err
	})
	return slugs, err
}

func (t tasks) Claimable(ctx context.Context) (claimable bool, err error) {
	err = t.with(ctx, func(s *backlog.Store) error {
		some, _, err := s.Peek(ctx, 1)
		claimable = len(some) > 0
		return err
	})
	return claimable, err
}

func (t tasks) Renew(ctx context.Context, agentID string) error {
	return t.with(ctx, func(s *backlog.Store) error {
		_, err := s.RenewHeld(ctx, agentID, backlog.DefaultLease)
		return err
	})
}

func (t tasks) Forgive(ctx context.Context, slug string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.Forgive(ctx, slug) })
}

func (t tasks) Reopen(ctx context.Context, slug, reason string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.Reopen(ctx, slug, reason) })
}

func (t tasks) RenameCommit(ctx context.Context, slug, from, to string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.RenameCommit(ctx, slug, from, to) })
}

func (t tasks) Park(ctx context.Context, slug, question string, options ...string) error {
	q := backlog.NewQuestion{Text: question, Options: options}
	return t.with(ctx, func(s *backlog.Store) error { return s.Park(ctx, slug, q) })
}

func (t tasks) Held(ctx context.Context, agentID string) (slugs []string, err error) {
	err = t.with(ctx, func(s *backlog.Store) error {
		held, err := s.List(ctx, backlog.Filter{Statuses: []string{backlog.StatusActive}, Assignee: agentID})
		for _, task := range held {
			slugs = append(slugs, task.Slug)
		}
		return err
	})
	return slugs, err
}

func (t tasks) Release(ctx context.Context, slug, reason string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.Fail(ctx, slug, reason) })
}

// alive reports whether an agent's process is running.
func (t tasks) alive(ctx context.Context, agentID string) (alive bool) {
	_ = t.with(ctx, func(s *backlog.Store) error {
		alive = s.Alive(agentID)
		return nil
	})
	return alive
}

// finishedBy returns the tasks that an agent has finished.
func (t tasks) finishedBy(ctx context.Context, agentID string) (slugs []string) {
	all, _ := t.Tasks(ctx) // only for the log
	for slug, task := range all {
		if task.Status == backlog.StatusDone && task.Assignee == agentID {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// register registers this process as an agent and releases the tasks of dead agents.
func (t tasks) register(ctx context.Context) (a registration, err error) {
	host, err := backlog.Hostname(os.Getenv)
	if err != nil {
		return a, err
	}
	err = t.with(ctx, func(s *backlog.Store) (err error) {
		if a.id, err = s.RegisterAgent(ctx, os.Getpid(), host); err != nil {
			return err
		}
		// Both are optional: otherwise leases expire.
		a.hold, _ = s.LockAgent(a.id)
		a.dead, _ = s.ReleaseDead(ctx, host)
		others, err := s.Agents(ctx)
		for _, other := range others {
			if other.ID != a.id && s.Alive(other.ID) {
				a.others = append(a.others, other)
			}
		}
		return err
	})
	return a, err
}

// registration is an agent in the backlog and the state of the other agents.
type registration struct {
	id     string
	hold   *backlog.AgentLock // nil if it could not be acquired
	dead   []backlog.Released // tasks of dead agents
	others []backlog.Agent    // running
}

func (t tasks) deregister(ctx context.Context, id string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.DeregisterAgent(ctx, id) })
}

// copyForHost writes a copy of the backlog for the host.
func (t tasks) copyForHost(ctx context.Context, top, dispatch string) error {
	return t.with(ctx, func(s *backlog.Store) error {
		c, err := s.Copy(ctx)
		if err != nil {
			return err
		}
		c.Undelete()
		return runlog.SaveBacklog(top, dispatch, c.Of(t.scope))
	})
}
