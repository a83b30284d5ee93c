package task

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// fence parses --attempt and sets the fence of the store.
func (s *session) fence(id string, attempt option) error {
	if !attempt.given {
		return nil
	}
	n, err := number("--attempt", attempt.value)
	if err == nil {
		s.store = s.store.Fence(id, n)
	}
	return err
}

// leaseFlags are the flags that claim and renew share.
type leaseFlags struct {
	id    string
	agent string
	lease time.Duration
	// attempt is a flag of renew only.
	attempt option
}

// parseLease parses "[<id>] [--lease N] [--agent A]". If the id is required, needID
// is the usage line.
func (s *session) parseLease(args []string, needID string) (leaseFlags, error) {
	var f leaseFlags
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		f.id, args = args[0], args[1:]
	}
	if f.id == "" && needID != "" {
		return f, missing("task ID", needID)
	}
	seconds, agent := option{}, s.agentFlag()
	accepted := flags{options: map[string]*option{"--lease": &seconds, "--agent": &agent}}
	if needID != "" {
		accepted.options["--attempt"] = &f.attempt
	}
	err := accepted.parse(args)
	if err == nil {
		err = s.checkAgent(agent)
	}
	if err != nil {
		return f, err
	}
	f.agent, f.lease = agent.value, backlog.DefaultLease
	if seconds.given {
		f.lease, err = lease(seconds.value)
	}
	return f, err
}

func claim(ctx context.Context, s *session, args []string) error {
	f, err := s.parseLease(args, "")
	if err != nil {
		return err
	}
	task, err := s.store.Claim(ctx, backlog.ClaimOptions{Slug: f.id, Agent: f.agent, Lease: f.lease})
	if err != nil {
		return err
	}
	claimed := claimedRecord(task)
	if s.Access == AccessAgent { // not part of the original format
		claimed.attempt = strconv.Itoa(task.Attempt)
	}
	s.printSections([]record{claimed})
	return nil
}

func renew(ctx context.Context, s *session, args []string) error {
	f, err := s.parseLease(args, "renew <id> [--lease N]")
	if err == nil {
		err = s.fence(f.id, f.attempt)
	}
	if err != nil {
		return err
	}
	if err := s.store.Renew(ctx, f.id, f.agent, f.lease); err != nil {
		return err
	}
	s.printf("renewed %s\n", f.id)
	return nil
}

func done(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, "done <id> [--result '<json>']")
	if err != nil {
		return err
	}
	var result, attempt option
	if err := (flags{options: map[string]*option{"--result": &result, "--attempt": &attempt}}).parse(rest); err != nil {
		return err
	}
	if result.value != "" && !hasCommit(result.value) {
		return errors.New("result JSON must include a 'commit' key")
	}
	if err := s.fence(id, attempt); err != nil {
		return err
	}
	end := s.store.Done
	if s.Access == AccessAgent && s.Loop {
		end = s.store.Finish
	}
	if err := end(ctx, id, result.value); err != nil {
		return err
	}
	s.printf("done %s\n", id)
	return nil
}

func fail(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, `fail <id> [--reason "<text>"]`)
	if err != nil {
		return err
	}
	var reason, attempt option
	if err := (flags{options: map[string]*option{"--reason": &reason, "--attempt": &attempt}}).parse(rest); err != nil {
		return err
	}
	if err := s.fence(id, attempt); err != nil {
		return err
	}
	if err := s.store.Fail(ctx, id, reason.value); err != nil {
		return err
	}
	s.printf("failed %s\n", id)
	return nil
}
