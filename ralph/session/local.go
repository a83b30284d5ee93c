package session

import (
	"context"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Local is a backlog in a database that this process has open.
type Local struct {
	Backlog // stub
	Store   *backlog.Store
	// Session is the ID of the session of its agent; empty for ralph on a plain host.
	Session string
	// Alive reports whether the command of another session still runs. nil: agents of this machine are alive if their
	// process is.
	Alive func(ctx context.Context, session string) bool
}
