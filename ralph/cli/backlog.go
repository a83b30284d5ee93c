package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// tasks is the backlog as the loops see it. The database is opened for every
// question: a loop runs for hours, and meanwhile an agent may replace the
// file, or somebody may copy it.
type tasks struct {
	path  string
	scope backlog.Scope
}

var _ loop.Backlog = tasks{}

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
		if err != nil {
			return err
		}
		all, err := s.List(ctx, backlog.Filter{All: true})
		if err != nil {
			return err
		}
		status = loop.Status{Open: counts.Open, Active: counts.Active, Blocked: counts.Blocked}
		status.Fingerprint, err = fingerprint(all)
		return err
	})
	return status, err
}

// fingerprint is the backlog without what claiming and giving back leaves.
func fingerprint(all []backlog.Task) (string, error) {
	for i := range all {
		t := &all[i]
		t.Assignee, t.Assigned, t.LeaseExpiresAt, t.UpdatedAt = "", false, "", ""
		t.RetryCount, t.FailReason = 0, ""
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("comparing backlogs: %w", err)
	}
	return string(b), nil
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

func (t tasks) register(ctx context.Context) (id string, err error) {
	host := os.Getenv("HOSTNAME")
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("reading the host's name: %w", err)
		}
	}
	err = t.with(ctx, func(s *backlog.Store) (err error) {
		id, err = s.RegisterAgent(ctx, os.Getpid(), host)
		return err
	})
	return id, err
}

func (t tasks) deregister(ctx context.Context, id string) error {
	return t.with(ctx, func(s *backlog.Store) error { return s.DeregisterAgent(ctx, id) })
}
