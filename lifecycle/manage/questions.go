package manage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// SandboxQuestion is a question of a task. Its texts are untrusted. Its names in JSON are part of the command's
// interface.
type SandboxQuestion struct {
	Sandbox  string `json:"sandbox"`
	Repo     string `json:"repo"`
	Branch   string `json:"branch"`
	Worktree string `json:"worktree"`
	taskjson.OpenQuestion
}

// AllQuestions returns the questions without an answer in all backlogs of this machine.
func AllQuestions(ctx context.Context, h host.Host) (all []SandboxQuestion, err error) {
	owners, err := h.Owners()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		o := owners[name]
		open, err := backlogs.Questions(ctx, h, name, o.Scope)
		if err != nil && ctx.Err() == nil {
			h.Warn(fmt.Errorf("reading the questions of %s: %w", name, err))
		}
		for _, q := range open {
			all = append(all, SandboxQuestion{Sandbox: name, Repo: o.Scope.Repo, Branch: o.Scope.Branch, Worktree: o.Root, OpenQuestion: q})
		}
	}
	return all, ctx.Err()
}

// Questions returns the questions without an answer of a worktree, nil for the current one.
func Questions(ctx context.Context, h host.Host, w *host.Worktree) ([]taskjson.OpenQuestion, error) {
	wt, _, err := existingScope(ctx, h, w)
	if err != nil {
		return nil, err
	}
	s, err := backlogs.Open(ctx, h, wt)
	if err != nil {
		return nil, err
	}
	open, err := backlogs.OpenQuestions(ctx, s)
	return open, errors.Join(err, s.Close())
}
