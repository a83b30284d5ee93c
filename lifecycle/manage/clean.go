package manage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// SandboxClean says which sandboxes to remove.
type SandboxClean struct {
	// Names are those of the sandboxes; none for that of the current scope.
	Names []string
	// All removes those of the repository, with all else that they have left.
	All bool
	// Force asks nobody.
	Force bool
	// DiscardCommits removes sandboxes whose commits cannot be fetched, too.
	DiscardCommits bool
	// DryRun removes nothing.
	DryRun bool
}

// cleaning is one that is under way.
type cleaning struct {
	SandboxClean
	host      host.Host
	home      host.Here
	connected func() (host.API, error)
	mine      []host.Located // to be removed
	others    []host.Located // of the repository
	extra     leftovers      // without All none
}

// CleanSandboxes removes sandboxes, once the user agrees, and returns what is gone
// or, with DryRun, would be: a kind and a name each. Commits that are in a sandbox
// alone are brought into the repository before. One that something runs in, or
// that has work which cannot be brought out, is kept, and is an error.
func CleanSandboxes(ctx context.Context, h host.Host, opts SandboxClean) ([]string, error) {
	c := &cleaning{SandboxClean: opts, host: h, connected: host.Once(h.Connect())}
	if err := c.find(ctx); err != nil {
		return nil, err
	}
	if err := c.choose(ctx); err != nil {
		return nil, err
	}
	if c.All {
		if err := c.findLeftovers(ctx); err != nil {
			return nil, err
		}
	}
	what := c.what()
	switch {
	case len(what) == 0:
		c.nothing()
		return nil, nil
	case c.DryRun:
		h.Report("Would remove:")
		return what, c.foresee(ctx)
	}
	if err := c.agree(ctx, what); err != nil {
		return nil, err
	}
	return c.remove(ctx)
}

// find finds the sandboxes that are meant, and the others of the repository.
func (c *cleaning) find(ctx context.Context) (err error) {
	if c.home, err = c.host.Here(ctx); err != nil && len(c.Names) == 0 {
		return err
	}
	if len(c.Names) > 0 {
		if c.All {
			return errors.New("sandboxes cannot be named with --all: it removes all of the repository")
		}
		c.mine, err = c.host.Select(ctx, c.home, c.Names)
		return err
	}
	all, err := c.host.Sandboxes(ctx, c.connected)
	if err != nil { // what is not seen would seem to be clean
		return err
	}
	for _, l := range all {
		switch {
		case c.home.Current(l.Sandbox) || c.All && c.home.Has(l.Sandbox):
			c.mine = append(c.mine, l)
		case c.home.Has(l.Sandbox):
			c.others = append(c.others, l)
		}
	}
	return nil
}

// choose asks which sandboxes are meant, where somebody can say.
func (c *cleaning) choose(ctx context.Context) error {
	if c.All || c.Force || c.DryRun || len(c.Names) > 0 || c.host.Ask == nil || len(c.mine)+len(c.others) == 0 {
		return nil
	}
	one := "this work tree's and branch's: there is none"
	if len(c.mine) > 0 {
		one = "this work tree's and branch's: " + strings.Join(boxNames(c.mine), ", ")
	}
	answer, err := c.host.Ask(ctx, fmt.Sprintf("Which sandboxes shall be removed? No file, branch or commit of yours is.\n"+
		"  1) %s\n  2) all of this repository, with its caches: %s\nYour choice (1 or 2): ",
		one, strings.Join(boxNames(slices.Concat(c.mine, c.others)), ", ")))
	if err != nil {
		return err
	}
	switch answer {
	case "1":
		c.Force = true // that was the one question
	case "2":
		c.All = true
		c.mine, c.others = slices.Concat(c.mine, c.others), nil
	default:
		return errors.New("nothing was removed")
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

// what lists what is to be removed.
func (c *cleaning) what() []string {
	var what []string
	for _, l := range c.mine {
		what = append(what, "sandbox "+l.Sandbox.Name)
	}
	for _, v := range c.extra.volumes {
		what = append(what, "volume "+v.name)
	}
	return what
}

func (c *cleaning) nothing() {
	switch {
	case !c.home.Inside:
		c.host.Report("There is nothing to remove for this folder. What there is, \"docker ralph ls --all\" lists; name it to remove it")
	case len(c.others) > 0:
		c.host.Report("There is no sandbox of this work tree and branch to remove. Those of the whole repository are removed with --all")
	case !c.All: // where the user was not asked, as there is nothing to choose
		c.host.Report("There is no sandbox of this repository to remove. Its caches, if any, are removed with --all")
	default:
		c.host.Report("There is nothing to remove")
	}
}

// agree asks the user, if need be.
func (c *cleaning) agree(ctx context.Context, what []string) error {
	if c.Force {
		return nil
	}
	if c.host.Confirm == nil {
		return fmt.Errorf("nobody can be asked whether to remove %s: see it with --dry-run, or remove it with --force", strings.Join(what, ", "))
	}
	question := fmt.Sprintf("Remove %s?", strings.Join(what, ", "))
	if c.All {
		question = fmt.Sprintf("This removes all sandboxes of the repository and its caches:\n  %s\nRemove them?", strings.Join(what, "\n  "))
	}
	yes, err := c.host.Confirm(ctx, question)
	if err == nil && !yes {
		err = errors.New("nothing was removed")
	}
	return err
}

// foresee tells which of the sandboxes would be kept.
func (c *cleaning) foresee(ctx context.Context) error {
	for _, l := range c.mine {
		if err := quiet(ctx, l); err != nil {
			c.host.Report(fmt.Sprintf("Warning: %v", err))
		}
	}
	return ctx.Err()
}

func (c *cleaning) remove(ctx context.Context) (removed []string, err error) {
	var errs []error
	for _, l := range c.mine {
		if err := removeBox(ctx, c.host, l, c.DiscardCommits); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "sandbox "+l.Sandbox.Name)
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
	}
	if c.All {
		more, err := c.removeLeftovers(ctx, len(errs) > 0)
		removed = append(removed, more...)
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// quiet makes sure that a sandbox can be removed without ending anything.
func quiet(ctx context.Context, l host.Located) error {
	switch l.Sandbox.State {
	case lifecycle.Running:
	case lifecycle.Unknown:
		return fmt.Errorf("the sandbox %s was kept, because its state is unknown: %s", l.Sandbox.Name, l.Sandbox.Why)
	default:
		return nil
	}
	busy, err := l.Backend.Driver.Busy(ctx, l.Sandbox)
	if err != nil && ctx.Err() == nil && host.Gone(l.Sandbox.Root) && !l.Sandbox.Private {
		return nil // nothing can be run where the work tree was, and no work can be done there
	}
	if err == nil && busy {
		err = errors.New("something runs in it. End that with \"docker ralph stop\", or at once with \"docker ralph stop --now\"")
	}
	if err != nil {
		return fmt.Errorf("the sandbox %s was kept: %w", l.Sandbox.Name, err)
	}
	return nil
}

// removeBox removes a sandbox. Without discard, it is kept if commits would be lost.
func removeBox(ctx context.Context, h host.Host, l host.Located, discard bool) error {
	leave, err := h.Exclude(ctx, l.Sandbox, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return fmt.Errorf("the sandbox %s was kept: another command works with it. Wait for it, or end it with \"docker ralph stop\"", l.Sandbox.Name)
	}
	defer leave()
	if err := quiet(ctx, l); err != nil {
		return err
	}
	if err := commits.FetchFrom(ctx, h, l); err != nil {
		if !discard {
			err = fmt.Errorf("the sandbox %s was kept, as it may have the only copy of its commits: %w", l.Sandbox.Name, err)
			return hint.Wrap(err, "%s", commits.DiscardHint(l.Sandbox.Name))
		}
		h.Report(fmt.Sprintf("Warning: discarded commits of the sandbox %s that were not fetched: %v", l.Sandbox.Name, err))
	}
	if err := l.Backend.Driver.Remove(ctx, l.Sandbox); err != nil {
		return err
	}
	if discard && l.Backend.Kind == config.DriverContainer && l.Sandbox.Private {
		if err := h.ContainerDriver(l.Backend.API).RemoveGit(ctx, l.Sandbox.Name); err != nil {
			return err
		}
	}
	_ = os.RemoveAll(h.RecordDir(l.Sandbox.Name)) // what they tell of is over
	h.Report(fmt.Sprintf("Removed the sandbox %s (%s)", l.Sandbox.Name, host.DescribeScope(l.Sandbox)))
	return nil
}
