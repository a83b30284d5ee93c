package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	door "github.com/docker-ralph/docker-ralph/ralph/session"
)

// checkWork returns an error for a loop without specs and tasks, which ralph would only find when it
// has a sandbox. Specs can be in an existing clone only, where ralph looks for them itself.
func (t Target) checkWork(ctx context.Context, h host.Host) error {
	if !host.IsLoop(t.opts.Command) || t.spec.Clone && gitsync.IsClone(h.StateDir, t.spec.Name) {
		return nil
	}
	written := t.hasSpecs()
	sent := written
	if t.spec.Clone && !t.opts.WithChanges && len(t.cfg.Include) == 0 {
		var err error
		if sent, err = t.hasCommittedSpecs(ctx, h); err != nil {
			return err
		}
	}
	if sent {
		return nil
	}
	if t.opts.Command != host.BuildCommand {
		return t.withoutSpecs(errors.New("nothing to plan: no specs in ./specs"), written)
	}
	store, err := backlogs.Open(ctx, h, t.wt)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing was written
	tasks := &door.Local{Store: store, Former: backlogs.Former{Host: h, Worktree: t.wt}}
	if status, err := tasks.Status(ctx); err != nil || status != (door.Status{}) {
		return err
	}
	err = t.withoutSpecs(errors.New("nothing to build: no tasks, and no specs in ./specs"), written)
	if adopt, _ := tasks.AdoptHint(ctx); adopt != "" {
		err = hint.Wrap(err, "%s", strings.TrimPrefix(adopt, "Hint: "))
	}
	return hint.Wrap(err, "create a task with %q", "docker ralph task create ID TITLE")
}

// withoutSpecs adds to an error how to get specs. written ones are not committed.
func (t Target) withoutSpecs(err error, written bool) error {
	switch {
	case written:
		return hint.Wrap(fmt.Errorf("%w that are committed", err), "commit ./specs, or pass --with-changes")
	case t.cfg.Agent.Name == "claude":
		return hint.Wrap(err, "write specs in ./specs and commit them, or run %q and type /ralph-spec", "docker ralph run")
	}
	return hint.Wrap(err, "write specs in ./specs and commit them")
}

// specsFolders are the folders of specs, relative to the top of the worktree: that in the current
// directory, and that at the top.
func (t Target) specsFolders() []string { return []string{path.Join(t.wt.Prefix, "specs"), "specs"} }

// hasSpecs reports whether there are specs in the worktree.
func (t Target) hasSpecs() bool {
	return slices.ContainsFunc(t.specsFolders(), func(folder string) bool {
		entries, err := os.ReadDir(filepath.Join(t.wt.Root, filepath.FromSlash(folder)))
		return err == nil && len(entries) > 0
	})
}

// hasCommittedSpecs reports whether the latest commit has specs.
func (t Target) hasCommittedSpecs(ctx context.Context, h host.Host) (bool, error) {
	repo, err := gitsync.Open(t.wt, t.spec.Name, h.StateDir)
	if err != nil {
		return false, err
	}
	return repo.HasCommitted(ctx, t.specsFolders()...)
}
