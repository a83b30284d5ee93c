package manage

import (
	"context"
	"fmt"
	"os/exec"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// DiffRun returns a git command that shows the commits of a run of a loop, by its number. It needs no engine. The
// options are those of git diff.
func DiffRun(ctx context.Context, h host.Host, l LoopLog, run int, options ...string) (show *exec.Cmd, err error) {
	wt, name, err := l.Find(ctx, h)
	if err != nil {
		return nil, err
	}
	_, err = l.show(ctx, h, wt, name, func(log *runlog.Reader, _ bool) error {
		base, head, err := commitsOf(log, run)
		if err != nil {
			return err
		}
		repo, err := gitsync.Open(wt, name, h.StateDir)
		if err != nil {
			return err
		}
		branch := log.Loop.Branch
		if branch == "" {
			branch = wt.Scope.Branch
		}
		if !repo.HasRun(ctx, branch, base, head) {
			return fmt.Errorf("the commits of run %d are not on branch %s, nor fetched from sandbox %s", run, termsafe.Name(branch), name)
		}
		show, err = repo.RunDiff(ctx, base, head, options...)
		return err
	})
	return show, err
}

// commitsOf returns the commits between which a run has worked, as the log says.
func commitsOf(log *runlog.Reader, run int) (base, head string, err error) {
	var events []runlog.Event
	for offset, more := int64(0), true; more; {
		some, next, err := log.Events(offset)
		if err != nil {
			return "", "", fmt.Errorf("reading the loop's log: %w", err)
		}
		events = append(events, some...)
		more, offset = next != offset, next
	}
	runs := log.Iterations()
	i := slices.IndexFunc(runs, func(it runlog.Iteration) bool { return it.N == run })
	base, head = runlog.CommitsOf(events, run)
	switch {
	case i < 0:
		return "", "", hint.Wrap(fmt.Errorf("loop %s has no completed run %d", termsafe.Line(log.Loop.ID), run), "see its runs with %q", "docker ralph logs")
	case head == "" && runs[i].Attempt != "":
		return "", "", hint.Wrap(fmt.Errorf("run %d has brought no commits to the branch", run), "see where its attempt is kept with %q", "docker ralph task show TASK")
	case head == "" || base == head:
		return "", "", fmt.Errorf("run %d has no commits", run)
	}
	return base, head, nil
}
