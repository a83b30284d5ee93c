package manage

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// SandboxQuestion is a question of a task in a sandbox. Its texts are untrusted. Its names
// in JSON are part of the command's interface.
type SandboxQuestion struct {
	Sandbox  string `json:"sandbox"`
	Repo     string `json:"repo"`
	Branch   string `json:"branch"`
	Worktree string `json:"worktree"`
	taskjson.OpenQuestion
}

// Questions returns the questions without an answer in all sandboxes of this machine. Those
// of a sandbox that is not running are from the latest copy of its backlog.
func Questions(ctx context.Context, h host.Host) ([]SandboxQuestion, error) {
	boxes, failed := h.Sandboxes(ctx, h.Connect())
	if failed != nil && len(boxes) == 0 {
		return nil, failed
	}
	if failed != nil {
		h.Warn(fmt.Errorf("some sandboxes may be missing: %w", failed))
	}
	boxes = slices.DeleteFunc(boxes, func(l host.Located) bool { return l.Sandbox.OtherClient != "" })
	found := make([][]SandboxQuestion, len(boxes))
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for i, l := range boxes {
		group.Go(func() error {
			open, err := questionsOf(ctx, h, l)
			if err != nil && ctx.Err() == nil {
				h.Warn(err)
			}
			for _, q := range open {
				found[i] = append(found[i], SandboxQuestion{
					Sandbox: l.Sandbox.Name, Repo: l.Sandbox.Scope.Repo, Branch: l.Sandbox.Scope.Branch, Worktree: l.Sandbox.Root, OpenQuestion: q,
				})
			}
			return nil
		})
	}
	_ = group.Wait()
	return slices.Concat(found...), ctx.Err()
}

// StoppedQuestions returns the questions without an answer of the sandbox of a worktree, nil for the
// current one, unless it is running: it has to be asked then.
func StoppedQuestions(ctx context.Context, h host.Host, worktree *host.Worktree) (open []taskjson.OpenQuestion, running bool, err error) {
	s, err := located(ctx, h, worktree)
	if err != nil || s.Sandbox.State == lifecycle.Running {
		return nil, true, err
	}
	open, err = questionsOf(ctx, h, s)
	return open, false, err
}

func questionsOf(ctx context.Context, h host.Host, l host.Located) ([]taskjson.OpenQuestion, error) {
	if l.Sandbox.State != lifecycle.Running {
		return backlogs.Backlog{Host: h, Sandbox: l.Sandbox.Name}.Questions(l.Sandbox.Scope)
	}
	return readTasks[taskjson.OpenQuestion](ctx, l, "questions")
}
