package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// ReopenUnmerged makes tasks open again whose commits stay behind when their sandbox is removed:
// the next sandbox starts from the user's branch, and nothing else would do them. The commits that
// were fetched keep their ref.
func ReopenUnmerged(ctx context.Context, h host.Host, sb lifecycle.Sandbox) {
	u := UnmergedOf(ctx, h, sb)
	if u == nil {
		return
	}
	where := "lost with the sandbox " + sb.Name
	if u.Ref != "" {
		where = "at " + u.Ref
		h.Report(fmt.Sprintf("Commits that are not on your branch %s stay at %s", u.Branch, u.Ref))
	}
	lost := func(commit string) (bool, error) { return lacks(ctx, h, sb, u.Branch, commit) }
	reopened, err := reopen(ctx, h, sb, lost, fmt.Sprintf("its commits are not on the branch %s, but %s", u.Branch, where))
	if len(reopened) > 0 {
		h.Report(fmt.Sprintf("Reopened %s, whose commits are not on your branch %s: %s", host.Count(len(reopened), "task"), u.Branch, strings.Join(reopened, ", ")))
	}
	if err != nil {
		h.Warn(fmt.Errorf("reopening tasks whose commits are not on your branch %s: %w", u.Branch, err))
	}
}

// reopen makes tasks open again that were finished by runs with lost commits.
func reopen(ctx context.Context, h host.Host, sb lifecycle.Sandbox, lost func(commit string) (bool, error), reason string) (reopened []string, err error) {
	finished, err := finishedBy(h.LogsOf(sb), lost)
	if err != nil || len(finished) == 0 {
		return nil, err
	}
	store, err := backlogs.ReadOf(ctx, h, sb)
	if err != nil || store == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	done, err := store.Lines(ctx, backlog.Filter{Statuses: []string{backlog.StatusDone}})
	if err != nil {
		return nil, err
	}
	for _, id := range finished {
		if !slices.ContainsFunc(done, func(t backlog.Line) bool { return t.Slug == id }) {
			continue
		}
		if err := store.MakeOpen(ctx, id, reason); err != nil {
			return reopened, err
		}
		reopened = append(reopened, termsafe.Line(id))
	}
	return reopened, nil
}

// recentLoops is in how many loops a task is searched for.
const recentLoops = 5

// finishedBy returns the tasks whose commits are lost, by the latest run with commits that finished them.
func finishedBy(logs string, lost func(commit string) (bool, error)) (found []string, err error) {
	seen := map[string]bool{}
	for _, loop := range runlog.Recent(logs, recentLoops, runlog.Any) {
		log, err := runlog.Find(logs, func(l runlog.Loop) bool { return l.ID == loop.ID })
		if err != nil {
			continue // pruned meanwhile
		}
		runs := log.Iterations()
		log.Close()
		for _, run := range slices.Backward(runs) {
			done := slices.DeleteFunc(slices.Clone(run.Done), func(id string) bool { return seen[id] })
			if run.Commits == 0 || len(done) == 0 {
				continue
			}
			for _, id := range done {
				seen[id] = true
			}
			if gone, err := lost(run.Commit); err != nil {
				return nil, err
			} else if gone {
				found = append(found, done...)
			}
		}
	}
	return found, nil
}
