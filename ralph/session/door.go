package session

import (
	"context"
	"net/http"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// DoorOptions configure a [Door].
type DoorOptions struct {
	Store *backlog.Store
	// Session is the ID of the session, and Command the one that runs in it: plan, build, run or shell.
	Session, Command string
	// Token marks the loop's requests where connections do not; empty otherwise.
	Token string
	// Alive reports whether the command of another session still runs.
	Alive func(ctx context.Context, session string) bool
}

// Door answers the requests of one session.
type Door struct{ http.Handler }

// NewDoor returns a handler for the requests of a session.
func NewDoor(DoorOptions) *Door { panic("stub") }

// WithPeer marks the context of a connection as the loop's.
func WithPeer(context.Context, bool) context.Context { panic("stub") }
