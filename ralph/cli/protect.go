package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// protected is the backlog of a loop, which keeps a copy of it in memory: agents
// can do to the file what they want.
type protected struct {
	tasks
	agentID string
	tempDir func() (string, error)
	stderr  io.Writer

	hold *backlog.Hold // nil without an agent
	copy *backlog.Copy // as the backlog was when it was looked at last
	run  *backlog.Run  // nil before the first
	seen int           // entries of the run that the copy holds already
}

var _ loop.Backlog = (*protected)(nil)

// lockTries is how often the database is tried that others hold. Each try takes
// as long as the backlog waits for a lock.
const lockTries = 3

// patiently repeats f while other processes hold the database, and says so.
func (p *protected) patiently(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if !errors.Is(err, backlog.ErrLocked) || n == lockTries || ctx.Err() != nil {
			return err
		}
		_, _ = fmt.Fprintln(p.stderr, "Warning: the backlog is locked by another process; retrying")
	}
}

func (p *protected) register(ctx context.Context) (a registration, err error) {
	err = p.patiently(ctx, func() error {
		a, err = p.tasks.register(ctx)
		return err
	})
	p.agentID, p.hold = a.id, a.hold
	if err == nil { // from now on, what happens to the file is undone
		_, err = p.Restore(ctx, a.id)
	}
	return a, err
}

// Release gives back what the agent still holds. What another one has claimed
// meanwhile is not the agent's.
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
		_ = p.run.Close() // the session's folder goes, too
		p.run, p.seen = nil, 0
	}
}

func (p *protected) Restore(ctx context.Context, agentID string) (damage string, err error) {
	err = p.patiently(ctx, func() error {
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
