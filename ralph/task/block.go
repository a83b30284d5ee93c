package task

import (
	"context"
	"maps"
)

// parseBlock parses "<id> --by <blocker>" and other options of the named command.
func parseBlock(args []string, name string, others map[string]*option) (id, blocker string, err error) {
	usage := name + " <id> --by <blocker-id>"
	id, rest, err := takeID(args, usage)
	if err != nil {
		return "", "", err
	}
	var by option
	options := map[string]*option{"--by": &by}
	maps.Copy(options, others)
	if err := (flags{options: options}).parse(rest); err != nil {
		return "", "", err
	}
	if by.value == "" {
		return "", "", missing("--by <blocker-id>", usage)
	}
	return id, by.value, nil
}

func block(ctx context.Context, s *session, args []string) error {
	var attempt option
	id, blocker, err := parseBlock(args, "block", map[string]*option{"--attempt": &attempt})
	if err == nil {
		err = s.fence(id, attempt)
	}
	if err != nil {
		return err
	}
	if err := s.store.Block(ctx, id, blocker); err != nil {
		return err
	}
	s.printf("blocked %s by %s\n", id, blocker)
	return nil
}

func unblock(ctx context.Context, s *session, args []string) error {
	id, blocker, err := parseBlock(args, "unblock", nil)
	if err != nil {
		return err
	}
	if err := s.store.Unblock(ctx, id, blocker); err != nil {
		return err
	}
	s.printf("unblocked %s from %s\n", id, blocker)
	return nil
}
