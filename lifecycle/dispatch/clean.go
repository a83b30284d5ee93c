package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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
	host      Host
	home      home
	connected func() (API, error)
	mine      []located // to be removed
	others    []located // of the repository
	extra     leftovers // without All none
}

// CleanSandboxes removes sandboxes, once the user agrees, and returns what is gone
// or, with DryRun, would be: a kind and a name each. Commits that are in a sandbox
// alone are brought into the repository before. One that something runs in, or
// that has work which cannot be brought out, is kept, and is an error.
func CleanSandboxes(ctx context.Context, h Host, opts SandboxClean) ([]string, error) {
	c := &cleaning{SandboxClean: opts, host: h, connected: once(h.connect())}
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
		h.report("Would remove:")
		return what, c.foresee(ctx)
	}
	if err := c.agree(ctx, what); err != nil {
		return nil, err
	}
	return c.remove(ctx)
}

// find finds the sandboxes that are meant, and the others of the repository.
func (c *cleaning) find(ctx context.Context) (err error) {
	if c.home, err = c.host.home(ctx); err != nil && len(c.Names) == 0 {
		return err
	}
	if len(c.Names) > 0 {
		if c.All {
			return errors.New("sandboxes cannot be named with --all: it removes all of the repository")
		}
		c.mine, err = c.host.chosen(ctx, c.home, c.Names)
		return err
	}
	all, err := c.host.sandboxes(ctx, c.connected)
	if err != nil { // what is not seen would seem to be clean
		return err
	}
	for _, l := range all {
		switch {
		case c.home.current(l.sb) || c.All && c.home.has(l.sb):
			c.mine = append(c.mine, l)
		case c.home.has(l.sb):
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

func boxNames(boxes []located) []string {
	var names []string
	for _, l := range boxes {
		names = append(names, l.sb.Name)
	}
	return names
}

// what lists what is to be removed.
func (c *cleaning) what() []string {
	var what []string
	for _, l := range c.mine {
		what = append(what, "sandbox "+l.sb.Name)
	}
	for _, v := range c.extra.volumes {
		what = append(what, "volume "+v.name)
	}
	return what
}

func (c *cleaning) nothing() {
	switch {
	case !c.home.inside:
		c.host.report("There is nothing to remove for this folder. What there is, \"docker ralph ls --all\" lists; name it to remove it")
	case len(c.others) > 0:
		c.host.report("There is no sandbox of this work tree and branch to remove. Those of the whole repository are removed with --all")
	case !c.All: // where the user was not asked, as there is nothing to choose
		c.host.report("There is no sandbox of this repository to remove. Its caches, if any, are removed with --all")
	default:
		c.host.report("There is nothing to remove")
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
		if err := c.host.quiet(ctx, l); err != nil {
			c.host.report(fmt.Sprintf("Warning: %v", err))
		}
	}
	return ctx.Err()
}

func (c *cleaning) remove(ctx context.Context) (removed []string, err error) {
	var errs []error
	for _, l := range c.mine {
		if err := c.host.removeBox(ctx, l, c.DiscardCommits); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "sandbox "+l.sb.Name)
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
func (h Host) quiet(ctx context.Context, l located) error {
	switch l.sb.State {
	case lifecycle.Running:
	case lifecycle.Unknown:
		return fmt.Errorf("the sandbox %s was kept, because its state is unknown: %s", l.sb.Name, l.sb.Why)
	default:
		return nil
	}
	busy, err := l.at.driver.Busy(ctx, l.sb)
	if err != nil && ctx.Err() == nil && gone(l.sb.Root) && !l.sb.Private {
		return nil // nothing can be run where the work tree was, and no work can be done there
	}
	if err == nil && busy {
		err = errors.New("something runs in it. End that with \"docker ralph stop\", or at once with \"docker ralph stop --now\"")
	}
	if err != nil {
		return fmt.Errorf("the sandbox %s was kept: %w", l.sb.Name, err)
	}
	return nil
}

// discardHint is how commits are given up that only a sandbox has.
func discardHint(which string) string {
	return fmt.Sprintf("discard them with %q", "docker ralph clean --discard-commits "+which)
}

// removeBox removes a sandbox. Without discard, it is kept if commits would be lost.
func (h Host) removeBox(ctx context.Context, l located, discard bool) error {
	leave, err := h.exclude(ctx, l.sb, 0)
	if err != nil {
		return err
	}
	if leave == nil {
		return fmt.Errorf("the sandbox %s was kept: another command works with it. Wait for it, or end it with \"docker ralph stop\"", l.sb.Name)
	}
	defer leave()
	if err := h.quiet(ctx, l); err != nil {
		return err
	}
	if err := h.fetch(ctx, l); err != nil {
		if !discard {
			err = fmt.Errorf("the sandbox %s was kept, as it may have the only copy of its commits: %w", l.sb.Name, err)
			return hint.Wrap(err, "%s", discardHint(l.sb.Name))
		}
		h.report(fmt.Sprintf("Warning: discarded commits of the sandbox %s that were not fetched: %v", l.sb.Name, err))
	}
	if err := l.at.driver.Remove(ctx, l.sb); err != nil {
		return err
	}
	if discard && l.at.kind == config.DriverContainer && l.sb.Private {
		if err := h.containerDriver(l.at.api).RemoveGit(ctx, l.sb.Name); err != nil {
			return err
		}
	}
	_ = os.RemoveAll(h.noteDir(l.sb.Name)) // what they tell of is over
	h.report(fmt.Sprintf("Removed the sandbox %s (%s)", l.sb.Name, whose(l.sb)))
	return nil
}
