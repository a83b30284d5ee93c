// Package backlogs keeps the backlog of each scope on the host: the database scopes/NAME/tasks.db in the state
// directory, NAME being that of the sandbox of its worktree. It stays when the sandbox is removed or recreated.
package backlogs

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// database is the name of the database in the folder of a scope.
const database = "tasks.db"

func path(h host.Host, name string) string { return scopes.Path(h.StateDir, name, database) }

// Open opens the backlog of a worktree. A missing one is created, with the tasks of .ralph/tasks.db of the worktree,
// if it has any.
func Open(ctx context.Context, h host.Host, wt gitrepo.Worktree) (*backlog.Store, error) {
	name, err := h.SandboxName(wt)
	if err != nil {
		return nil, err
	}
	if err := h.SaveOwner(name, host.OwnerOf(wt)); err != nil {
		return nil, err
	}
	if s, err := Read(ctx, h, name, wt.Scope); s != nil || err != nil {
		return s, err
	}

	if err := importFrom(ctx, h, wt, name); err != nil {
		return nil, err
	}
	return backlog.OpenHost(ctx, path(h, name), backlog.Scope(wt.Scope))
}

// Read opens the backlog of a scope by the name of its sandbox; nil without one.
func Read(ctx context.Context, h host.Host, name string, scope gitrepo.Scope) (*backlog.Store, error) {
	if _, err := os.Lstat(path(h, name)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return backlog.OpenHost(ctx, path(h, name), backlog.Scope(scope))
}

// ReadOf opens the backlog of a sandbox's worktree, which an ephemeral sandbox uses as well; nil without one.
func ReadOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox) (*backlog.Store, error) {
	name, err := h.ScopeName(sb)
	if err != nil {
		return nil, err
	}
	return Read(ctx, h, name, sb.Scope)
}
