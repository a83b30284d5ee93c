package task

import (
	"context"
	"errors"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

var errMoveUsage = errors.New("invalid arguments: this command is internal to docker-ralph")

// moveIn installs the database that the host sends: ID. It prints "kept" if this clone has
// tasks of its own.
func moveIn(ctx context.Context, s *session, args []string) error {
	path, id, err := moved(ctx, args)
	if err != nil {
		return err
	}
	kept, err := backlog.Receive(ctx, path, id, s.Stdin)
	if err == nil && kept {
		s.print("kept\n")
	}
	return err
}

// moveOut sends the database to the host: ID.
func moveOut(ctx context.Context, s *session, args []string) error {
	path, id, err := moved(ctx, args)
	if err != nil {
		return err
	}
	return backlog.Send(ctx, path, id, s.out)
}

// releaseMoved moves the database away after moveOut: ID.
func releaseMoved(ctx context.Context, _ *session, args []string) error {
	path, id, err := moved(ctx, args)
	if err != nil {
		return err
	}
	return backlog.Release(path, id)
}

// moved returns the path of the database and the ID of the move.
func moved(ctx context.Context, args []string) (path, id string, err error) {
	if len(args) != 1 || args[0] == "" {
		return "", "", errMoveUsage
	}
	path, err = backlog.Locate(ctx)
	return path, args[0], err
}
