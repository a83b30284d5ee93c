package manage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// CleanOptions are the options of [CleanSandboxes].
type CleanOptions struct {
	// Names are the sandboxes to remove; without them, those of the current scope.
	Names []string
	// All removes all sandboxes of the repository, with its volumes.
	All bool
	// Force skips the confirmation.
	Force bool
	// DiscardCommits also removes sandboxes whose commits cannot be fetched.
	DiscardCommits bool
	// DryRun removes nothing.
	DryRun bool
}

// cleanup is one call of [CleanSandboxes].
type cleanup struct {
	CleanOptions
	host      host.Host
	home      host.Here
	connected func() (host.API, error)
	selected  []host.Located      // to be removed
	others    []host.Located      // of the repository
	theirs    []string            // of the repository, which other clients have created: a kind and a name each
	volumes   []repositoryVolumes // by engine
}

// CleanSandboxes removes sandboxes, once the user agrees, and returns what it
// removed or, with DryRun, would remove: a kind and a name each. It fetches their
// commits first. It is an error, and the sandbox is kept, if a command runs in one
// or its commits cannot be fetched.
func CleanSandboxes(ctx context.Context, h host.Host, opts CleanOptions) ([]string, error) {
	c := &cleanup{CleanOptions: opts, host: h, connected: h.Connect()}
	if err := c.find(ctx); err != nil {
		return nil, err
	}
	for _, l := range c.selected {
		commits.ReportOnlyInside(ctx, h, l)
	}
	if err := c.choose(ctx); err != nil {
		return nil, err
	}
	if c.All {
		if err := c.findVolumes(ctx); err != nil {
			return nil, err
		}
	}
	c.reportTheirs()
	targets := c.targets()
	switch {
	case len(targets) == 0:
		c.reportNothing()
		return nil, nil
	case c.DryRun:
		h.Report("Would remove:")
		for _, l := range c.selected {
			if err := checkRemovable(ctx, h, l, c.DiscardCommits); err != nil {
				h.Warn(err)
			}
		}
		return targets, ctx.Err()
	}
	if err := c.confirm(ctx, targets); err != nil {
		return nil, err
	}
	return c.remove(ctx)
}

// find finds the sandboxes to remove and the others of the repository.
func (c *cleanup) find(ctx context.Context) (err error) {
	if c.home, err = c.host.Here(ctx); err != nil && len(c.Names) == 0 {
		return err
	}
	if len(c.Names) > 0 {
		if c.All {
			return errors.New("sandbox names cannot be combined with --all")
		}
		c.selected, err = c.host.Select(ctx, c.home, c.Names)
		return err
	}
	all, failed := c.host.Sandboxes(ctx, c.connected)
	var refused error
	for _, l := range all {
		switch {
		case l.Sandbox.OtherClient != "" && c.home.Current(l.Sandbox) && !c.All:
			refused = l.Backend.Unusable
		case l.Sandbox.OtherClient != "":
			if c.home.Has(l.Sandbox) {
				c.theirs = append(c.theirs, "sandbox "+l.Sandbox.Name)
			}
		case c.home.Current(l.Sandbox) || c.All && c.home.Has(l.Sandbox):
			c.selected = append(c.selected, l)
		case c.home.Has(l.Sandbox):
			c.others = append(c.others, l)
		}
	}
	if len(c.selected) == 0 { // sandboxes that are not listed would look removed
		return errors.Join(failed, refused)
	}
	if failed != nil {
		c.host.Warn(fmt.Errorf("some sandboxes may be missing: %w", failed))
	}
	return nil
}

// reportTheirs reports what --all keeps because other clients have created it.
func (c *cleanup) reportTheirs() {
	if !c.All || len(c.theirs) == 0 {
		return
	}
	c.host.Report(fmt.Sprintf("Keeping what belongs to other clients: %s\nHint: if a client is gone, remove its sandbox with \"docker ralph clean --discard-commits NAME\"",
		strings.Join(c.theirs, ", ")))
}

// choose asks which sandboxes to remove, if the options do not say so.
func (c *cleanup) choose(ctx context.Context) error {
	if c.All || c.Force || c.DryRun || len(c.Names) > 0 || c.host.Ask == nil || len(c.selected)+len(c.others) == 0 {
		return nil
	}
	one := "this worktree and branch: there is none"
	if len(c.selected) > 0 {
		one = "this worktree and branch: " + strings.Join(boxNames(c.selected), ", ")
	}
	answer, err := c.host.Ask(ctx, fmt.Sprintf("Which sandboxes should be removed? Your files, branches and commits are kept.\n"+
		"  1) %s\n  2) all of this repository, with its caches: %s\nYour choice (1 or 2): ",
		one, strings.Join(boxNames(slices.Concat(c.selected, c.others)), ", ")))
	if err != nil {
		return err
	}
	switch answer {
	case "1":
		c.Force = true // no second question
	case "2":
		for _, l := range c.others {
			commits.ReportOnlyInside(ctx, c.host, l)
		}
		c.All = true
		c.selected, c.others = slices.Concat(c.selected, c.others), nil
	default:
		return errors.New("canceled")
	}
	return nil
}

func boxNames(boxes []host.Located) []string {
	var names []string
	for _, l := range boxes {
		names = append(names, l.Sandbox.Name)
	}
	return names
}

// targets lists what is to be removed.
func (c *cleanup) targets() []string {
	var targets []string
	for _, l := range c.selected {
		targets = append(targets, "sandbox "+l.Sandbox.Name)
	}
	for _, on := range c.volumes {
		for _, v := range on.list {
			targets = append(targets, "volume "+v.Name)
		}
	}
	return targets
}

func (c *cleanup) reportNothing() {
	switch {
	case !c.home.Inside:
		c.host.Report("Nothing to remove for this directory\nHint: list all sandboxes with \"docker ralph ls --all\" and pass their names")
	case len(c.others) > 0:
		c.host.Report("No sandbox of this worktree and branch to remove\nHint: remove all sandboxes of the repository with --all")
	case !c.All:
		c.host.Report("No sandbox of this repository to remove\nHint: remove its caches with --all")
	default:
		c.host.Report("Nothing to remove")
	}
}

// confirm asks the user, unless Force is set.
func (c *cleanup) confirm(ctx context.Context, targets []string) error {
	if c.Force {
		return nil
	}
	if c.host.Confirm == nil {
		return hint.Wrap(fmt.Errorf("refusing to remove %s without confirmation", strings.Join(targets, ", ")), "preview with --dry-run, or pass --force")
	}
	question := fmt.Sprintf("Remove %s?", strings.Join(targets, ", "))
	if c.All {
		question = fmt.Sprintf("This removes all sandboxes of the repository and its caches:\n  %s\nRemove them?", strings.Join(targets, "\n  "))
	}
	yes, err := c.host.Confirm(ctx, question)
	if err == nil && !yes {
		err = errors.New("canceled")
	}
	return err
}

func (c *cleanup) remove(ctx context.Context) (removed []string, err error) {
	var errs []error
	for _, l := range c.selected {
		if err := RemoveSandbox(ctx, c.host, l, c.DiscardCommits); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "sandbox "+l.Sandbox.Name)
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
	}
	if c.All {
		more, err := c.removeVolumes(ctx, len(errs) > 0)
		removed = append(removed, more...)
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// checkIdle returns an error if a command runs in a sandbox, or if that is unknown.
func checkIdle(ctx context.Context, l host.Located) error {
	switch l.Sandbox.State {
	case lifecycle.Running:
	case lifecycle.Unknown:
		return fmt.Errorf("keeping sandbox %s: its state is unknown: %s", l.Sandbox.Name, l.Sandbox.Why)
	default:
		return nil
	}
	busy, err := l.Backend.Driver.Busy(ctx, l.Sandbox)
	if err != nil && ctx.Err() == nil && host.Missing(l.Sandbox.Root) && !l.Sandbox.Private {
		return nil // no exec works without the worktree, and there are no commits inside
	}
	if err == nil && busy {
		err = hint.Wrap(errors.New("a command is still running in it"), "stop it with %q, or at once with %q", "docker ralph stop "+l.Sandbox.Name, "docker ralph stop --now "+l.Sandbox.Name)
	}
	if err != nil {
		return fmt.Errorf("keeping sandbox %s: %w", l.Sandbox.Name, err)
	}
	return nil
}

// RemoveSandbox removes a sandbox. Without discard, it keeps one whose commits cannot
// be fetched.
func RemoveSandbox(ctx context.Context, h host.Host, l host.Located, discard bool) error {
	leave, err := h.LockExclusive(ctx, l.Sandbox.Name, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return hint.Wrap(fmt.Errorf("keeping sandbox %s: another command is using it", l.Sandbox.Name), "wait for it, or stop it with %q", "docker ralph stop "+l.Sandbox.Name)
	}
	defer leave()
	if l.Sandbox.OtherClient != "" {
		return removeOther(ctx, h, l, discard)
	}
	if l.Backend.Unusable != nil {
		return forgetSandbox(h, l, discard)
	}
	if err := checkIdle(ctx, l); err != nil {
		return err
	}
	err = commits.FetchFrom(ctx, h, l)
	if err == nil && l.Sandbox.Clone && l.Sandbox.State != lifecycle.Running { // it was not named before
		started := l
		started.Sandbox.State = lifecycle.Running
		commits.ReportOnlyInside(ctx, h, started)
	}
	if err != nil {
		if !discard {
			err = fmt.Errorf("keeping sandbox %s: it may have the only copy of its commits: %w", l.Sandbox.Name, err)
			return hint.Wrap(err, "%s", commits.DiscardHint(l.Sandbox.Name))
		}
		h.Report(fmt.Sprintf("Warning: discarded unfetched commits of sandbox %s: %v", l.Sandbox.Name, err))
		commits.ReopenUnmerged(ctx, h, l.Sandbox)
		if err := commits.ReleaseClone(ctx, h, l); err != nil {
			h.Warn(err)
		}
	}
	fetched := discard || !l.Sandbox.Private || gitsync.Saved(h.StateDir, l.Sandbox.Name)
	if err := l.Backend.Driver.Remove(ctx, l.Sandbox); err != nil {
		return err
	}
	if discard {
		if err := removeDiscarded(ctx, h, l); err != nil {
			return err
		}
	}
	if err := h.ForgetEngine(l.Sandbox.Name); err != nil {
		return err
	}
	_ = os.RemoveAll(h.RecordDir(l.Sandbox.Name)) // no run is active any more
	h.Report(fmt.Sprintf("Removed sandbox %s (%s)", l.Sandbox.Name, host.DescribeScope(l.Sandbox)))
	if fetched {
		return commits.ForgetRefs(ctx, h, l.Sandbox)
	}
	return nil
}

// removeDiscarded removes what a sandbox leaves behind if its commits are discarded.
func removeDiscarded(ctx context.Context, h host.Host, l host.Located) error {
	if l.Backend.Kind == config.DriverContainer && l.Sandbox.Private {
		return h.ContainerDriver(l.Backend.API).RemoveGit(ctx, l.Sandbox.Name)
	}
	return nil
}

// forgetSandbox forgets a sandbox on an engine that cannot be reached, if its commits may be lost.
func forgetSandbox(h host.Host, l host.Located, discard bool) error {
	name := l.Sandbox.Name
	if !discard {
		return hint.Wrap(fmt.Errorf("keeping sandbox %s: %w", name, l.Backend.Unusable),
			"if the engine is gone, forget the sandbox with %q", "docker ralph clean --discard-commits "+name)
	}
	if err := h.ForgetSandbox(l.Sandbox); err != nil {
		return err
	}
	h.Report(fmt.Sprintf("Warning: forgot sandbox %s: if engine %s still exists, the container, its volumes and unfetched commits remain there", name, l.Backend.Engine))
	return nil
}
