package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Trust shows what the repository of the current directory requests, and approves
// it if the user confirms, or with force.
func Trust(ctx context.Context, h host.Host, force bool) error {
	wt, err := findWorktree(ctx, h)
	if err != nil {
		return err
	}
	pending, err := pending(ctx, h, wt)
	if err != nil {
		return err
	}
	out := termsafe.NewWriter(h.Stdout)
	if len(pending) == 0 {
		_, err = fmt.Fprintf(out, "Nothing in %s needs approval.\n", wt.Root)
		return err
	}
	for _, p := range pending {
		if _, err := fmt.Fprint(out, p.text); err != nil {
			return err
		}
	}
	if err := confirmTrust(ctx, h, force); err != nil {
		return err
	}
	for _, p := range pending {
		if err := p.approve(); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, "Approved.")
	return err
}

func confirmTrust(ctx context.Context, h host.Host, force bool) error {
	switch {
	case force:
		return nil
	case h.Confirm == nil:
		return hint.Wrap(errors.New("refusing to approve without confirmation"), "review the list, then run %q", "docker ralph trust --force")
	}
	yes, err := h.Confirm(ctx, "Approve?")
	if err == nil && !yes {
		err = errors.New("canceled")
	}
	return err
}

// findWorktree finds the worktree that approvals are for. The self-test also builds
// the project image of a directory outside of any repository.
func findWorktree(ctx context.Context, h host.Host) (gitrepo.Worktree, error) {
	wt, err := gitrepo.Detect(ctx, h.Dir, host.AnyScope)
	if errors.Is(err, gitrepo.ErrNotRepository) {
		if _, found, _ := projectimage.FindProject(ctx, h.Dir); found {
			return gitrepo.Worktree{Root: h.Dir, MainRoot: h.Dir}, nil
		}
	}
	return wt, err
}

type pendingApproval struct {
	text    string
	approve func() error
}

// pending lists what is not approved yet.
func pending(ctx context.Context, h host.Host, wt gitrepo.Worktree) ([]pendingApproval, error) {
	store := config.NewTrustStore(h.StateDir)
	cfg, err := loadHeld(store, config.Sources{Root: wt.Root, UserDir: h.StateDir})
	if err != nil {
		return nil, err
	}
	all, err := pendingOfRepository(ctx, store, wt)
	if err != nil {
		return nil, err
	}
	err = requireTrust(ctx, store, wt, cfg)
	if _, untrusted := errors.AsType[*config.UntrustedError](err); untrusted {
		all = append(all, pendingApproval{Describe(cfg.Privileged), func() error { return store.Approve(wt.Root, cfg.PrivilegedDigest()) }})
	} else if err != nil {
		return nil, err
	}
	req, err := host.ImageRequest(ctx, wt, cfg)
	if err != nil || req.Project == nil || req.Project.Digest() == "" {
		return all, err
	}
	build, err := buildApproval(store, req.Project)
	if err != nil {
		return nil, err
	}
	return appendPending(all, store, build)
}

// pendingOfRepository lists unapproved nesting and lists of ignored files.
func pendingOfRepository(ctx context.Context, store config.TrustStore, wt gitrepo.Worktree) (all []pendingApproval, err error) {
	if wt.CommonDir == "" {
		return nil, nil
	}
	nested, err := nestedApproval(ctx, wt)
	if err != nil {
		return nil, err
	}
	includes, _, err := includesApproval(wt)
	if err != nil {
		includes = approval{} // creating a clone reports the error
	}
	for _, a := range []approval{nested, includes} {
		if a.digest == "" {
			continue
		}
		if all, err = appendPending(all, store, a); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func appendPending(all []pendingApproval, store config.TrustStore, a approval) ([]pendingApproval, error) {
	approved, err := a.approved(store)
	if err != nil || approved {
		return all, err
	}
	return append(all, pendingApproval{a.describe(), func() error { return store.ApproveFiles(a.root, a.digest, a.files) }}), nil
}

// Revoke forgets all approvals of the repository of the current directory.
func Revoke(ctx context.Context, h host.Host) error {
	wt, err := findWorktree(ctx, h)
	if err != nil {
		return err
	}
	if err := revokeAll(ctx, config.NewTrustStore(h.StateDir), wt); err != nil {
		return err
	}
	_, err = fmt.Fprintf(termsafe.NewWriter(h.Stdout), "Revoked all approvals of %s and of the other worktrees of its repository.\n", wt.Root)
	return err
}

// revokeAll revokes the approvals of all worktrees of a repository, which share
// them (see requireTrust).
func revokeAll(ctx context.Context, store config.TrustStore, wt gitrepo.Worktree) error {
	roots := []string{wt.Root}
	if wt.MainRoot != "" {
		roots = append(roots, wt.MainRoot)
	}
	repo, err := worktrees.Open(wt)
	if err == nil {
		var trees []worktrees.Tree
		trees, err = repo.List(ctx)
		for _, t := range trees {
			roots = append(roots, t.Path)
		}
	}
	return errors.Join(store.Revoke(roots...), err)
}
