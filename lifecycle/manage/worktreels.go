package manage

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// WorktreeStatus describes a worktree and its sandbox. Its names in JSON are part
// of the command's interface.
type WorktreeStatus struct {
	Name    string `json:"name"` // below .worktrees; empty for one elsewhere
	Path    string `json:"path"`
	Branch  string `json:"branch"`  // empty for none
	Sandbox string `json:"sandbox"` // empty if there is none, or that is unknown
	State   string `json:"state"`   // of the sandbox
	Against string `json:"against"` // base of Ahead and Behind: the upstream or the branch that it would be merged into; empty for none
	Ahead   *int   `json:"ahead"`   // commits; nil without Against
	Behind  *int   `json:"behind"`
	Changes *int   `json:"changes"` // files with uncommitted changes; nil if its directory is missing
	Main    bool   `json:"main"`
	Current bool   `json:"current"`
}

// Worktrees lists the worktrees of the current repository, the main one first. It
// only warns if sandboxes cannot be listed.
func Worktrees(ctx context.Context, h host.Host) ([]WorktreeStatus, error) {
	connected := h.Connect()
	wt, err := gitrepo.Detect(ctx, h.Dir, host.AnyScope)
	if err != nil {
		return nil, err
	}
	repo, err := worktrees.Open(wt)
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	var boxes []host.Located
	var unknown error
	group.Go(func() error { boxes, unknown = h.Sandboxes(ctx, connected); return nil })
	list, err := statuses(ctx, h, repo)
	_ = group.Wait() // its error is in unknown
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if unknown != nil {
		h.Warn(fmt.Errorf("some sandboxes may be missing: %w", unknown))
	}
	for i := range list {
		list[i].find(boxes, unknown != nil)
	}
	return list, nil
}

// find fills in the sandbox. Of several, which a worktree has after a switch of its
// branch, it prefers the one of the current branch.
func (s *WorktreeStatus) find(boxes []host.Located, incomplete bool) {
	s.State = string(lifecycle.NotFound)
	if incomplete {
		s.State = string(lifecycle.Unknown)
	}
	for _, box := range boxes {
		if box.Sandbox.OtherClient == "" && box.Sandbox.Root == s.Path && (s.Sandbox == "" || box.Sandbox.Scope.Branch == s.Branch) {
			s.Sandbox, s.State = box.Sandbox.Name, string(box.Sandbox.State)
		}
	}
}

func statuses(ctx context.Context, h host.Host, repo *worktrees.Repository) ([]WorktreeStatus, error) {
	trees, err := repo.List(ctx)
	if err != nil {
		return nil, err
	}
	list, errs := make([]WorktreeStatus, len(trees)), make([]error, len(trees))
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for i, t := range trees {
		list[i] = WorktreeStatus{Name: t.Name, Path: t.Path, Branch: t.Branch, Main: t.Main, Current: t.Current}
		if t.Missing {
			continue
		}
		group.Go(func() error {
			s, err := repo.Status(ctx, t)
			if errs[i] = err; err != nil {
				return nil //nolint:nilerr // reported below; the others are listed all the same
			}
			changes := len(s.Changed)
			list[i].Changes, list[i].Against = &changes, s.Against
			if s.Against != "" {
				list[i].Ahead, list[i].Behind = &s.Ahead, &s.Behind
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	for _, err := range errs {
		if err != nil && ctx.Err() == nil {
			h.Warn(err)
		}
	}
	return list, nil
}
