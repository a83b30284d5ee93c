package attempt

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// Keep creates a ref for the commits of an attempt, up to that commit, that the host does not fetch yet.
func (w Worktree) Keep(ctx context.Context, id attemptref.ID, commit string) (ref string, err error) {
	if ref, err = w.create(ctx, attemptref.Unfetched, id, commit); err != nil {
		return "", fmt.Errorf("keeping the commits of task %s: %w", id.Task, err)
	}
	return ref, nil
}

// Publish renames a ref to one that the host fetches.
func (w Worktree) Publish(ctx context.Context, id attemptref.ID, ref string) (published string, err error) {
	if published, err = w.create(ctx, attemptref.Prefix, id, ref); err == nil {
		_, err = w.git(ctx, nil, "", "update-ref", "-d", ref)
	}
	if err != nil {
		return ref, fmt.Errorf("publishing %s: %w", ref, err)
	}
	return published, nil
}

// create creates a ref of an attempt.
func (w Worktree) create(ctx context.Context, prefix string, id attemptref.ID, commit string) (ref string, err error) {
	out, err := w.git(ctx, nil, "", "for-each-ref", "--format=%(refname)", prefix)
	if err != nil {
		return "", err
	}
	ref = id.Ref(prefix, strings.Fields(out))
	_, err = w.git(ctx, nil, "", "update-ref", ref, commit, "")
	return ref, err
}

// List returns the refs of tasks, the newest first. An unreadable repository has none.
func (w Worktree) List(ctx context.Context) map[string][]string {
	out, err := w.git(ctx, nil, "", "for-each-ref", "--sort=-committerdate", "--format=%(refname)", attemptref.Prefix, attemptref.Unfetched)
	if err != nil {
		return nil
	}
	refs := map[string][]string{}
	for ref := range strings.FieldsSeq(out) {
		for _, prefix := range []string{attemptref.Prefix, attemptref.Unfetched} {
			if task, ok := attemptref.Task(prefix, ref); ok {
				refs[task] = append(refs[task], ref)
			}
		}
	}
	return refs
}
