package run

import (
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// notifications sends the user's notifications about a loop; nil for other commands.
func (h session) notifications(ctx context.Context, r Ready) *notify.Loop {
	if !host.IsLoop(r.opts.Command) {
		return nil
	}
	sender := notify.NewSender(ctx, r.cfg.Notify, h.Notifier, filepath.Join(h.StateDir, "notify"), h.Warn)
	return notify.Follow(ctx, sender, notify.Notification{
		Repo: r.wt.Scope.Repo, Branch: r.wt.Scope.Branch, Worktree: r.wt.Root, Sandbox: r.spec.Name, Command: r.opts.Command,
	}, h.id)
}
