package task

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

func agent(ctx context.Context, s *session, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return missing("agent subcommand", "agent <register|list|deregister>")
	}
	switch args[0] {
	case "register":
		return register(ctx, s)
	case "list":
		return listAgents(ctx, s)
	case "deregister":
		return deregister(ctx, s, args[1:])
	}
	return fmt.Errorf("unknown agent subcommand '%s'", args[0])
}

func register(ctx context.Context, s *session) error {
	host, err := backlog.Hostname(s.Getenv)
	if err != nil {
		return err
	}
	id, err := s.store.RegisterAgent(ctx, backlog.Agent{PID: os.Getpid(), Hostname: host})
	if err != nil {
		return err
	}
	s.printf("%s\n", id)
	return nil
}

func listAgents(ctx context.Context, s *session) error {
	agents, err := s.store.Agents(ctx)
	if err != nil || len(agents) == 0 {
		return err
	}
	widths := []int{6, 8, 20, 25}
	s.printRow(widths, "ID", "PID", "HOSTNAME", "STARTED", "STATUS")
	for _, a := range agents {
		s.printRow(widths, a.ID, strconv.Itoa(a.PID), a.Hostname, a.StartedAt, a.Status)
	}
	return nil
}

func deregister(ctx context.Context, s *session, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return missing("agent ID", "agent deregister <id>")
	}
	if err := s.store.DeregisterAgent(ctx, args[0]); err != nil {
		return err
	}
	s.printf("deregistered %s\n", args[0])
	return nil
}
