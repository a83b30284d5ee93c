package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// DryRun prints what a command would do, and changes nothing.
func DryRun(ctx context.Context, h host.Host, opts Options) error {
	h, found, err := h.Existing(ctx, opts.Worktree)
	if err == nil && !found {
		err = fmt.Errorf("no worktree %q: the command would create it", opts.Worktree.Name)
	}
	if err != nil {
		return err
	}
	opts.Worktree, h.Confirm = nil, nil
	t, err := resolve(ctx, h, opts, h.Connect())
	if err != nil {
		return err
	}
	if _, err := signs(ctx, h, t, t.spec.Private, &t.spec); err != nil {
		return err
	}
	sandbox, err := ensurer(h, t, nil).Preview(ctx, t.spec, opts.Recreate)
	if err != nil {
		return err
	}
	image, err := t.previewImage(ctx)
	if err != nil {
		return err
	}
	repo, err := gitsync.Open(t.wt, t.spec.Name, h.StateDir)
	if err != nil {
		return err
	}
	changed, err := repo.Uncommitted(ctx)
	if err != nil {
		return err
	}
	uncommitted := "none"
	if len(changed) > 0 {
		uncommitted = fmt.Sprintf("%s: %s", host.Count(len(changed), "file"), host.Some(changed))
	}
	key, err := t.previewKey(ctx, h)
	if err != nil {
		return err
	}
	task, err := t.previewTask(ctx, h)
	if err != nil {
		return err
	}
	lines := [][2]string{
		{"Scope", fmt.Sprintf("%s, branch %s", t.wt.Scope.Repo, t.wt.Scope.Branch)},
		{"Worktree", t.wt.Root},
		{"Sandbox", fmt.Sprintf("%s (driver %s) %s", t.spec.Name, t.Kind, sandbox)},
		{"Image", image},
		{"Network", fmt.Sprintf("%s (%s)", cmp.Or(string(t.spec.Egress.Policy.Mode), "default"), t.cfg.Origins["sandbox.network.policy"])},
		{"Agent", fmt.Sprintf("%s (%s)", t.cfg.Agent.Name, t.cfg.Origins["agent.name"])},
		{"Key", key},
		{"Next task", task},
		{"Uncommitted", uncommitted},
		{"Command", "ralph " + strings.Join(append([]string{opts.Command}, opts.Args...), " ")},
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(h.Stdout, "%-13s%s\n", line[0]+":", termsafe.Line(line[1])); err != nil {
			return err
		}
	}
	if opts.Command == runflags.Plan && !slices.Contains(opts.Args, "--"+runflags.DryRun) {
		h.Report(`Hint: to see the plan itself, run "docker ralph plan --dry-run"`)
	}
	return nil
}

func (t Target) previewImage(ctx context.Context) (string, error) {
	if t.API == nil {
		return t.Image, nil
	}
	_, err := t.API.ImageInspect(ctx, t.Image)
	switch {
	case errdefs.IsNotFound(err) && t.Build:
		return t.Image + " would be built", nil
	case errdefs.IsNotFound(err):
		return t.Image + " would be pulled", nil
	case err != nil:
		return "", fmt.Errorf("inspecting image %s: %w", t.Image, err)
	case t.opts.Rebuild && t.Build:
		return t.Image + " would be rebuilt", nil
	}
	return t.Image, nil
}

// previewTask returns the task that the next agent would claim.
func (t Target) previewTask(ctx context.Context, h host.Host) (string, error) {
	store, err := backlogs.Read(ctx, h, t.name, t.wt.Scope)
	if store == nil {
		return "none", err
	}
	claimable, held, err := store.Peek(ctx, 1)
	if err := errors.Join(err, store.Close()); err != nil {
		return "", err
	}
	next := append(claimable, held...)
	switch {
	case len(next) == 0:
		return "none", nil
	case next[0].Status != backlog.StatusOpen: // another loop has it, or has died with it
		return fmt.Sprintf("%s %s (%s)", next[0].Slug, next[0].Title, next[0].Status), nil
	}
	return next[0].Slug + " " + next[0].Title, nil
}

// previewKey names the source of the agent's key.
func (t Target) previewKey(ctx context.Context, h host.Host) (string, error) {
	variables := credential.KeyVariables(t.cfg.Agent.Name)
	for _, name := range variables {
		if h.Getenv(name) != "" {
			return name, nil
		}
	}
	keys, err := routeKeys(ctx, h, t)
	switch {
	case err != nil:
		return "", err
	case len(t.cloud) > 0:
		return "AWS credentials", nil
	case keys != nil && len(keys.Routes) > 0:
		return "login on this machine", nil
	case len(variables) == 0:
		return "none needed", nil
	}
	return "none: " + strings.Join(variables, " or ") + " is not set", nil
}
