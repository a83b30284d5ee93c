package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// openBacklog opens the backlog of a loop, and registers a build as an agent. Outside a repository, or without a scope,
// there is none.
func (o Options) openBacklog(ctx context.Context, j *job, s *agentEnv) (err error) {
	switch {
	case j.host != nil:
		if err = j.host.Begin(ctx); err != nil {
			return fmt.Errorf("connecting to docker ralph on the host: %w", err)
		}
		s.backlog = j.host
	case s.scope != backlog.Scope{}:
		if s.store, err = backlog.Open(ctx, filepath.Join(s.top, ".ralph", "tasks.db"), s.scope); err != nil {
			return err
		}
		if j.flags.dryRun {
			if err := s.copyBacklog(ctx); err != nil {
				return err
			}
		}
		s.backlog = &session.Local{Store: s.store}
	default:
		return nil
	}
	if s.accepted, err = s.backlog.Accepted(ctx); err != nil {
		return fmt.Errorf("looking for commits that an earlier loop has left: %w", err)
	}
	if j.session.Mode != agent.Build {
		return nil
	}
	if s.Registration, err = s.backlog.Register(ctx); err != nil {
		// Without an agent the loop could not check, renew or release tasks.
		return fmt.Errorf("registering with the backlog: %w", err)
	}
	o.reportAgents(s.Registration)
	return nil
}

// copyBacklog replaces the backlog by a copy in the session's temporary directory. In a sandbox, the host does.
func (s *agentEnv) copyBacklog(ctx context.Context) error {
	temp, err := s.tempDir()
	if err != nil {
		return err
	}
	path := filepath.Join(temp, "backlog", "tasks.db")
	if err := errors.Join(s.store.CopyTo(ctx, path), s.store.Close()); err != nil {
		s.store = nil
		return err
	}
	if s.store, err = backlog.OpenCopy(ctx, path, s.top, s.scope); err == nil {
		s.copied = path
	}
	return err
}

// reportAgents reports dead and other running agents.
func (o Options) reportAgents(r session.Registration) {
	for _, t := range r.Dead {
		_, _ = fmt.Fprintf(o.Stderr, "Task %s is open again: agent %s, which held it, died.\n", termsafe.Strip(t.Slug), termsafe.Strip(t.Agent))
	}
	for _, other := range r.Others {
		_, _ = fmt.Fprintf(o.Stderr, "Note: agent %s is also working on this backlog, since %s UTC.\n", termsafe.Strip(other.ID), termsafe.Strip(other.StartedAt))
	}
}

// isRunning reports whether another agent is running.
func (s *agentEnv) isRunning(agentID string) bool {
	return slices.ContainsFunc(s.Others, func(a session.Agent) bool { return a.ID == agentID })
}

// hasWork reports whether there are specs, or tasks to build. It changes to the top of
// the worktree if there are no specs in the current directory.
func (j *job) hasWork(ctx context.Context) (bool, error) {
	if hasSpecs() {
		return true, nil
	}
	if path, err := backlog.Locate(ctx); err == nil {
		if top := filepath.Dir(filepath.Dir(path)); isDir(top) && os.Chdir(top) == nil && hasSpecs() {
			return true, nil
		}
	}
	switch {
	case j.session.Mode != agent.Build:
		return false, nil
	case j.host != nil:
		status, err := j.host.Status(ctx)
		return status != session.Status{}, err
	}
	return hasTasks(ctx), nil
}

// hasTasks reports whether the worktree has a backlog with tasks.
func hasTasks(ctx context.Context) bool {
	path, err := backlog.Locate(ctx)
	if err != nil {
		return false
	}
	if _, err := os.Stat(path); err != nil {
		return false // do not create a database
	}
	store, err := backlog.OpenHere(ctx, os.Getenv)
	if err != nil {
		return false
	}
	defer func() { _ = store.Close() }() // nothing was written
	status, err := (&session.Local{Store: store}).Status(ctx)
	return err == nil && status != session.Status{}
}

// hasSpecs reports whether ./specs is not empty.
func hasSpecs() bool {
	entries, err := os.ReadDir("specs")
	return err == nil && len(entries) > 0
}

// noSpecs is the error for missing specs in a sandbox, on the same stream as its hints.
func (j *job) noSpecs(ctx context.Context) error {
	err := errors.New("No specs found in ./specs/") //nolint:staticcheck // as outside
	if j.session.Mode == agent.Build {
		if text, failed := j.host.AdoptHint(ctx); failed == nil && text != "" {
			err = hint.Wrap(err, "%s", termsafe.Strip(strings.TrimPrefix(text, "Hint: ")))
		}
	}
	return hint.Wrap(err, "write specs in ./specs/, or create tasks with %q", "docker ralph task create ID TITLE")
}
