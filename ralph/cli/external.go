package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/taskprogram"
)

// external is a backlog behind another program with the command line of
// "ralph task": one that somebody has put beside this program as lib/task.
// It is asked in the words of the original loops, and nothing more.
type external struct {
	path    string
	environ func() []string // of every call; it grows with the session
	stderr  io.Writer
}

var _ keeper = external{}

func (e external) program() taskprogram.Program {
	return taskprogram.Program{Path: e.path, Env: e.environ()}
}

// scope asks for the scope. Without one the backlog still has tasks.
func (e external) scope(ctx context.Context) (scope backlog.Scope, err error) {
	out, err := e.program().Output(ctx, nil, "_get-scope")
	if err != nil {
		return backlog.Scope{}, err
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if repo, found := strings.CutPrefix(line, "repo:"); found {
			scope.Repo = repo
		}
		if branch, found := strings.CutPrefix(line, "branch:"); found {
			scope.Branch = branch
		}
	}
	return scope, nil
}

func (e external) register(ctx context.Context) (registration, error) {
	out, err := e.program().Output(ctx, nil, "agent", "register")
	return registration{id: strings.TrimSpace(out)}, err
}

func (e external) deregister(ctx context.Context, id string) error {
	return e.program().Run(ctx, nil, nil, "agent", "deregister", id)
}

// Status reads the line that plan-status prints.
func (e external) Status(ctx context.Context) (loop.Status, error) {
	out, err := e.program().Output(ctx, e.stderr, "plan-status")
	if err != nil {
		return loop.Status{}, err
	}
	return parsePlanStatus(out)
}

var planStatus = regexp.MustCompile(`^([0-9]+)(?:.*?([0-9]+) active)?(?:.*?([0-9]+) done)?(?:.*?([0-9]+) blocked)?`)

// parsePlanStatus finds the numbers in "1 open, 2 active, 3 done, 4 blocked,
// 5 deleted". The first two are needed.
func parsePlanStatus(out string) (loop.Status, error) {
	line := strings.TrimSpace(out)
	found := planStatus.FindStringSubmatch(line)
	if found == nil || found[2] == "" {
		return loop.Status{}, fmt.Errorf("plan-status printed %.80q", line)
	}
	var n [4]int
	for i, digits := range found[1:] {
		if digits == "" {
			continue
		}
		var err error
		if n[i], err = strconv.Atoi(digits); err != nil {
			return loop.Status{}, fmt.Errorf("plan-status printed %.80q: %w", line, err)
		}
	}
	return loop.Status{Open: n[0], Active: n[1], Done: n[2], Blocked: n[3]}, nil
}

// Held takes a fault for "no task": then the leases have to do.
func (e external) Held(ctx context.Context, agentID string) ([]string, error) {
	slugs, _ := e.program().Active(ctx, agentID)
	return slugs, nil
}

// Release gives a task back. What is wrong with it, the program says itself.
func (e external) Release(ctx context.Context, slug, reason string) error {
	return e.program().Fail(ctx, nil, e.stderr, slug, reason)
}
