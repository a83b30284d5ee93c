package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// FetchEdits fetches the commits of a clone, which it starts if necessary, and what is not
// committed there: nil if there is nothing.
func FetchEdits(ctx context.Context, h host.Host, l host.Located) (*gitsync.Repo, *gitsync.Edits, error) {
	sb := l.Sandbox
	switch {
	case madeBySbx(l.Backend.Driver, sb):
		return nil, nil, errMadeBySbx(sb)
	case !sb.Clone:
		return nil, nil, hint.Wrap(fmt.Errorf("sandbox %s works on your files in %s", sb.Name, sb.Root), "its changes are there: see them with \"git diff\"")
	}
	if sb.State != lifecycle.Running {
		if err := l.Backend.Driver.Start(ctx, sb); err != nil {
			return nil, nil, err
		}
		l.Sandbox.State = lifecycle.Running
	}
	g, err := openRunning(ctx, h, l)
	if err == nil {
		err = g.Fetch(ctx, l.Sandbox)
	}
	var edits *gitsync.Edits
	if err == nil {
		var nested []string
		if edits, nested, err = g.Repo.FetchEdits(ctx, Shell(g.Driver, sb)); len(nested) > 0 {
			h.Report("Warning: nested repositories in the sandbox are left out: " + host.Some(nested))
		}
		err = heldHint(sb, err)
	}
	switch {
	case errors.Is(err, lifecycle.ErrNotPrepared):
		return nil, nil, errUnprepared
	case err != nil:
		return nil, nil, err
	}
	return g.Repo, edits, nil
}

// countTimeout bounds counting edits, which an agent can block.
const countTimeout = 10 * time.Second

// ReportEdits reports how much a command has left uncommitted in a clone: the user's files do not
// have it.
func (g *Git) ReportEdits(ctx context.Context, sb lifecycle.Sandbox) {
	if g == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n, err := g.Repo.CountEdits(ctx, Shell(g.Driver, sb))
	switch {
	case err != nil:
		g.Host.Warn(err)
	case n > 0:
		g.Host.Report(fmt.Sprintf("Changes in %s are not committed, and only in the sandbox\nHint: see them with %q, bring them into your worktree with %q",
			host.Count(n, "file"), "docker ralph diff", "docker ralph apply"))
	}
}

// ReportOnlyInside reports what a running clone has, and is not brought to the user: it goes with the sandbox.
func ReportOnlyInside(ctx context.Context, h host.Host, l host.Located) {
	g, err := openRunning(ctx, h, l)
	if err != nil || g == nil || !l.Sandbox.Clone {
		return // a stopped one is started later, and others have nothing of their own
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	paths, err := g.Repo.OnlyInside(ctx, Shell(g.Driver, l.Sandbox))
	if err != nil {
		h.Warn(err)
	}
	if len(paths) > 0 {
		h.Report(fmt.Sprintf("Note: only sandbox %s has %s, which git ignores, or which are repositories of their own", l.Sandbox.Name, host.Some(paths)))
	}
}

// maxChecked is how much of the output of a run's checks is searched, in bytes.
const maxChecked = 16 << 10

// HintIgnored hints at ignored files of the worktree that failed checks of a loop name: a clone does not have
// them.
func (g *Git) HintIgnored(ctx context.Context, sb lifecycle.Sandbox) {
	if g == nil {
		return
	}
	log, err := runlog.Find(g.Host.LogsOf(sb), runlog.Any)
	if err != nil {
		return // there is no loop
	}
	defer log.Close()
	var said strings.Builder
	for _, run := range log.Iterations() {
		if slices.ContainsFunc(run.Checks, func(c runlog.Check) bool { return c.Failure != "" }) {
			_, err := log.CopyRun(&said, runlog.Checked, run.N, log.Last(runlog.Checked, run.N, 0, maxChecked))
			if err != nil {
				g.Host.Warn(err)
			}
			said.WriteString("\n" + run.Reason + "\n")
		}
	}
	if said.Len() == 0 {
		return
	}
	named, err := g.Repo.NamedIgnored(ctx, said.String())
	if err != nil {
		g.Host.Warn(err)
	}
	if len(named) > 0 {
		g.Host.Report(fmt.Sprintf("Hint: the sandbox does not have what git ignores: %s; add it to workspace.include, or make it with workspace.setup", host.Some(named)))
	}
}
