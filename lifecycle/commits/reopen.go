package commits

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
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
	where := "lost with sandbox " + sb.Name
	if u.Ref != "" {
		where = "at " + u.Ref
		h.Report(fmt.Sprintf("Commits that are not on your branch %s stay at %s", u.Branch, u.Ref))
	}
	reopened, err := reopen(ctx, h, sb, *u, fmt.Sprintf("its commits are not on branch %s, but %s", u.Branch, where))
	if len(reopened) > 0 {
		h.Report(fmt.Sprintf("Reopened %s, whose commits are not on your branch %s: %s", host.Count(len(reopened), "task"), u.Branch, strings.Join(reopened, ", ")))
	}
	if err != nil {
		h.Warn(fmt.Errorf("reopening tasks whose commits are not on your branch %s: %w", u.Branch, err))
	}
}

// reopen makes tasks open again whose receipts name commits that the user's branch lacks.
func reopen(ctx context.Context, h host.Host, sb lifecycle.Sandbox, u gitsync.Unmerged, reason string) (reopened []string, err error) {
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return nil, err
	}
	store, err := backlogs.ReadOf(ctx, h, sb)
	if err != nil || store == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	accepted, err := store.Accepted(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range accepted {
		left, err := u.Includes(ctx, wt, t.Receipt.Commit)
		if err == nil && left {
			err = store.MakeOpen(ctx, t.Slug, reason)
		}
		if err != nil {
			return reopened, err
		}
		if left {
			reopened = append(reopened, termsafe.Line(t.Slug))
		}
	}
	return reopened, nil
}
