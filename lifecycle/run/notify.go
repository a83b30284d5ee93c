package run

import (
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// notifications sends the user's notifications about a loop; nil for other commands.
func (h session) notifications(ctx context.Context, r Ready) *notify.Loop {
	if !host.IsLoop(r.opts.Command) {
		return nil
	}
	return notify.Follow(newSender(ctx, h.Host, r.cfg.Notify), notification(r.wt, r.spec.Name, r.opts.Command))
}

func newSender(ctx context.Context, h host.Host, to config.Notify) *notify.Sender {
	return notify.NewSender(ctx, to, h.Notifier, filepath.Join(h.StateDir, "notify"), h.Warn)
}

// notification is what all notifications of a loop have.
func notification(wt gitrepo.Worktree, sandbox, command string) notify.Notification {
	return notify.Notification{Repo: wt.Scope.Repo, Branch: wt.Scope.Branch, Worktree: wt.Root, Sandbox: sandbox, Command: command}
}
