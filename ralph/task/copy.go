package task

import (
	"context"
	"fmt"
	"io"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// maxCopy bounds the size of an imported copy, in bytes.
const maxCopy = 64 << 20

// exportCopy prints the tasks of the scope. The host stores such copies out of
// reach of the agent.
func exportCopy(ctx context.Context, s *session, _ []string) error {
	c, err := s.store.Copy(ctx)
	if err != nil {
		return err
	}
	c.Undelete()
	return c.Of(s.store.Scope()).Write(s.out)
}

// importCopy replaces the tasks of the scope by those of a copy, even if the database
// is damaged.
func importCopy(ctx context.Context, s *session, _ []string) error {
	c, err := backlog.ReadCopy(io.LimitReader(s.Stdin, maxCopy))
	if err != nil {
		return err
	}
	path, err := backlog.Locate(ctx)
	if err != nil {
		return err
	}
	scope, err := backlog.DetectScope(ctx, s.Getenv)
	if err != nil {
		return err
	}
	n, err := backlog.Import(ctx, path, scope, c)
	if err != nil {
		return fmt.Errorf("restoring the backlog: %w", err)
	}
	s.printf("restored %d tasks\n", n)
	return nil
}
