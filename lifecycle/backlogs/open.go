package backlogs

import (
	"context"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Open opens the backlog of a worktree, creating it, or importing the one in the worktree once, which it reports.
func Open(context.Context, host.Host, gitrepo.Worktree) (*backlog.Store, error) { panic("stub") }

// Read opens an existing backlog by the name of its sandbox; nil without one.
func Read(context.Context, host.Host, string, gitrepo.Scope) (*backlog.Store, error) { panic("stub") }
