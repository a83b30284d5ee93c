package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

func planSync(ctx context.Context, s *session, _ []string) error {
	specs, err := s.specs()
	if err != nil {
		return err
	}
	sum, err := s.store.Sync(ctx, s.Stdin, specs...)
	if err != nil {
		return err
	}
	s.printf("%s\n", sum)
	for _, u := range sum.Unknown {
		s.complain("Warning: " + u.String())
	}
	for _, slug := range sum.NotDone {
		s.complain(fmt.Sprintf("Warning: task '%s' is in the backlog already, and was not set to done", slug))
	}
	return nil
}

// specs returns the specs, as the loop finds them: in the current directory or else in the root of the worktree.
func (s *session) specs() ([]string, error) {
	if s.Store != nil {
		return s.Specs, nil
	}
	if _, err := os.Stat("specs"); err == nil {
		return backlog.SpecFiles("specs")
	}
	return backlog.SpecFiles(filepath.Join(s.store.Top(), "specs"))
}

func planStatus(ctx context.Context, s *session, args []string) error {
	if err := (flags{}).parse(args); err != nil {
		return err
	}
	n, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	s.printf("%d open, %d active, %d done, %d blocked, %d deleted", n.Open, n.Active, n.Done, n.Blocked, n.Deleted)
	if n.Questions > 0 {
		s.printf(", %d question", n.Questions)
	}
	s.print("\n")
	return nil
}
