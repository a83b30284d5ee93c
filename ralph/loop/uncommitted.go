package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func (l *loop) uncommitted(ctx context.Context) []string {
	if l.Uncommitted == nil || l.Backlog == nil {
		return nil
	}
	return l.Uncommitted(ctx)
}

// warnUncommitted warns of finished tasks whose commit is not on the branch, and of new
// uncommitted changes. The tasks still count: there may have been nothing to commit.
func (l *loop) warnUncommitted(ctx context.Context, it *iteration, before []string) {
	if len(it.finished) == 0 {
		return
	}
	for _, slug := range it.finished {
		commit := commitOf(it.after.tasks[slug].Result)
		if commit != "" && l.Committed != nil && !l.Committed(ctx, commit) {
			l.warnf("task %s is done, but its commit %s is not on the branch", slug, cut(commit))
		}
	}
	left := slices.DeleteFunc(l.uncommitted(ctx), func(line string) bool { return slices.Contains(before, line) })
	if len(left) > 0 {
		l.warnf("%s done, but %s not committed", strings.Join(it.finished, ", "), count(len(left), "change"))
	}
}

// commitOf returns the commit in a task's result, or "".
func commitOf(result string) string {
	var named struct {
		Commit string `json:"commit"`
	}
	if json.Unmarshal([]byte(result), &named) != nil {
		return ""
	}
	return termsafe.Strip(named.Commit)
}
