package commits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// AddNotes adds receipts to the git notes of their commits, one per line. A failure is a warning.
func AddNotes(ctx context.Context, h host.Host, wt gitrepo.Worktree, receipts []taskjson.Receipt) {
	lines := map[string]string{}
	var errs []error
	for _, r := range receipts {
		line, err := json.Marshal(r)
		if errs = append(errs, err); err == nil && r.Commit != "" {
			lines[r.Commit] += string(line) + "\n"
		}
	}
	for commit, text := range lines {
		errs = append(errs, gitsync.AddNote(ctx, wt, h.StateDir, commit, text))
	}
	if err := errors.Join(errs...); err != nil {
		h.Warn(fmt.Errorf("adding receipts as git notes: %w", err))
	}
}
