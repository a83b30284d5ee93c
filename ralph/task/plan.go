package task

import (
	"context"
	"fmt"
)

func planSync(ctx context.Context, s *session, _ []string) error {
	sum, err := s.store.Sync(ctx, s.Stdin)
	if err != nil {
		return err
	}
	s.printf("inserted: %d, updated: %d, deleted: %d, skipped (done): %d\n",
		sum.Inserted, sum.Updated, sum.Deleted, sum.Skipped)
	for _, u := range sum.Unknown {
		s.complain(fmt.Sprintf("Warning: task '%s' depends on '%s', which does not exist; dependency left out", u.Task, u.Dep))
	}
	return nil
}

func planStatus(ctx context.Context, s *session, args []string) error {
	if err := (flags{}).parse(args); err != nil {
		return err
	}
	n, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	s.printf("%d open, %d active, %d done, %d blocked, %d deleted\n", n.Open, n.Active, n.Done, n.Blocked, n.Deleted)
	return nil
}
