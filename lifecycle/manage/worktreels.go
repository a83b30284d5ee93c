package manage

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// WorktreeStatus is a work tree of the repository and its sandbox. Its names in
// JSON are part of the command's interface.
type WorktreeStatus struct {
	Name    string `json:"name"` // below .worktrees; empty for one elsewhere
	Path    string `json:"path"`
	Branch  string `json:"branch"`  // empty for none
	Sandbox string `json:"sandbox"` // empty if there is none, or that is unknown
	State   string `json:"state"`   // the sandbox's, or not found, or unknown
	Against string `json:"against"` // what Ahead and Behind count from: the upstream or the branch that it would be merged into; empty for none
	Ahead   *int   `json:"ahead"`   // commits; nil without Against
	Behind  *int   `json:"behind"`
	Changes *int   `json:"changes"` // files with uncommitted changes; nil if its folder is gone
	Main    bool   `json:"main"`    // the repository's main work tree
	Current bool   `json:"current"` // the one that the command was given in
}

// Worktrees lists the work trees of the current repository, the main one first.
// That sandboxes cannot be listed is a warning only.
func Worktrees(ctx context.Context, h host.Host) ([]WorktreeStatus, error) {
	connected := host.Once(h.Connect())
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
		h.Report(fmt.Sprintf("Warning: not all sandboxes are known: %v", unknown))
	}
	for i := range list {
		list[i].find(boxes, unknown != nil)
	}
	return list, nil
}

// find fills in the sandbox. A work tree whose branch was switched can have
// several; the one of its branch counts.
func (s *WorktreeStatus) find(boxes []host.Located, incomplete bool) {
	s.State = string(lifecycle.NotFound)
	if incomplete {
		s.State = string(lifecycle.Unknown)
	}
	for _, box := range boxes {
		if box.Sandbox.Root == s.Path && (s.Sandbox == "" || box.Sandbox.Scope.Branch == s.Branch) {
			s.Sandbox, s.State = box.Sandbox.Name, string(box.Sandbox.State)
		}
	}
}

// lookers is how many work trees are looked at side by side.
const lookers = 8

func statuses(ctx context.Context, h host.Host, repo *worktrees.Repository) ([]WorktreeStatus, error) {
	trees, err := repo.List(ctx)
	if err != nil {
		return nil, err
	}
	list, errs := make([]WorktreeStatus, len(trees)), make([]error, len(trees))
	var group errgroup.Group
	group.SetLimit(lookers)
	for i, t := range trees {
		list[i] = WorktreeStatus{Name: t.Name, Path: t.Path, Branch: t.Branch, Main: t.Main, Current: t.Current}
		if t.Missing {
			continue
		}
		group.Go(func() error {
			s, err := repo.Status(ctx, t)
			if errs[i] = err; err != nil {
				return nil //nolint:nilerr // told for this one; the others are listed all the same
			}
			changes := len(s.Changed)
			list[i].Changes, list[i].Against = &changes, s.Against
			if s.Against != "" {
				list[i].Ahead, list[i].Behind = &s.Ahead, &s.Behind
			}
			return nil
		})
	}
	_ = group.Wait() // each has an error of its own
	for _, err := range errs {
		if err != nil && ctx.Err() == nil {
			h.Report(fmt.Sprintf("Warning: %v", err))
		}
	}
	return list, nil
}
