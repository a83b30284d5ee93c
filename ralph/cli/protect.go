package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// protected is the backlog of a loop. It keeps a copy in memory to restore the file that
// agents can change.
type protected struct {
	tasks
	agentID string
	tempDir func() (string, error)
	stderr  io.Writer

	hold *backlog.AgentLock // nil without an agent
	copy *backlog.Copy      // of the last known state
	run  *backlog.Run       // nil before the first
	seen int                // entries of the run that are in the copy
}

var _ loop.Backlog = (*protected)(nil)

// lockTries is the number of attempts to lock the database. Each waits for the
// backlog's lock timeout.
const lockTries = 3

// retryLocked retries f while another process locks the database.
func (p *protected) retryLocked(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if !errors.Is(err, backlog.ErrLocked) || n == lockTries || ctx.Err() != nil {
			return err
		}
		_, _ = fmt.Fprintln(p.stderr, "Warning: the backlog is locked by another process; retrying")
	}
}

func (p *protected) register(ctx context.Context) (a registration, err error) {
	err = p.retryLocked(ctx, func() error {
		a, err = p.tasks.register(ctx)
		return err
	})
	p.agentID, p.hold = a.id, a.hold
	if err == nil { // protects it from now on
		_, err = p.Restore(ctx, a.id)
	}
	return a, err
}

// Release fails a task that the agent still holds.
func (p *protected) Release(ctx context.Context, slug, reason string) error {
	return p.with(ctx, func(s *backlog.Store) error {
		s.As(p.agentID)
		return s.Fail(ctx, slug, reason)
	})
}

func (p *protected) Begin() ([]string, error) {
	p.endRun()
	dir, err := p.tempDir()
	if err == nil {
		p.run, err = backlog.NewRun(dir)
	}
	if err != nil {
		return nil, err
	}
	return []string{p.run.Env()}, nil
}

func (p *protected) endRun() {
	if p.run != nil {
		_ = p.run.Close() // its directory is removed with the session
		p.run, p.seen = nil, 0
	}
}

func (p *protected) Restore(ctx context.Context, agentID string) (damage string, err error) {
	err = p.retryLocked(ctx, func() error {
		if p.copy != nil {
			entries := p.entries()
			d, err := backlog.Restore(ctx, p.path, p.copy, agentID, entries[min(p.seen, len(entries)):])
			if err != nil {
				return fmt.Errorf("restoring the backlog: %w", err)
			}
			damage, p.seen = d.String(), len(entries)
		}
		return p.with(ctx, func(s *backlog.Store) (err error) {
			p.copy, err = s.Copy(ctx)
			return err
		})
	})
	if p.hold != nil {
		err = errors.Join(err, p.hold.Restore())
	}
	return damage, err
}

func (p *protected) entries() []backlog.Entry {
	if p.run == nil {
		return nil
	}
	return p.run.Entries()
}

// Claimed reports whether a command of the run has claimed a task.
func (p *protected) Claimed(slug string) bool {
	return slices.ContainsFunc(p.entries(), func(e backlog.Entry) bool {
		return e.Claims() && e.Slug == slug && e.Scope == p.scope
	})
}

func (p *protected) Overtaken(ctx context.Context) (lost []string, err error) {
	claimed := map[string]backlog.Entry{}
	for _, e := range p.entries() {
		switch {
		case e.Scope != p.scope:
		case e.Claims():
			claimed[e.Slug] = e
		case e.Ends():
			delete(claimed, e.Slug)
		}
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	err = p.with(ctx, func(s *backlog.Store) error {
		for slug, e := range claimed {
			task, err := s.Show(ctx, slug)
			if errors.Is(err, backlog.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if task.Attempt > e.Attempt || task.Status == backlog.StatusActive && task.Assignee != e.Agent {
				lost = append(lost, slug)
			}
		}
		return nil
	})
	return lost, err
}
