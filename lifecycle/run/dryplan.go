package run

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// storeOf returns the backlog of a command, and how to close it: that of the worktree, or for a dry run of plan a copy.
// The copy is found by the ID of the command: another process can take over its session.
func (s sessions) storeOf(ctx context.Context, n host.Record) (store *backlog.Store, closeIt func(), err error) {
	if !isDryPlan(n.Command) {
		return s.store, func() {}, nil
	}
	store, err = backlogs.OpenCopy(ctx, s.host, s.name, n.ID, s.store)
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			s.host.Warn(err)
		}
	}, nil
}

// forgetCopy removes the copy of a dry run, if the command is one.
func (s sessions) forgetCopy(id string) {
	if err := backlogs.RemoveCopy(s.host, s.name, id); err != nil {
		s.host.Warn(fmt.Errorf("removing the backlog of the dry run: %w", err))
	}
}

// isDryPlan reports whether a command in a sandbox shows a plan without changing the backlog.
func isDryPlan(command []string) bool {
	if len(command) < 2 || command[1] != runflags.Plan {
		return false
	}
	given, _ := runflags.Of(runflags.Plan).Parse(command[2:]) // ralph reports errors
	return given[runflags.DryRun] != ""
}
