package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// external is a backlog behind another program with the command line of
// "ralph task": one that somebody has put beside this program as lib/task.
// It is asked in the words of the original loops, and nothing more.
type external struct {
	program string
	scope   backlog.Scope
	stderr  io.Writer
}

var _ loop.Backlog = external{}

// run returns what the program prints.
func (e external) run(ctx context.Context, stderr io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, e.program, args...)
	cmd.Stderr = stderr
	if e.scope != (backlog.Scope{}) {
		cmd.Env = append(os.Environ(), "RALPH_SCOPE_REPO="+e.scope.Repo, "RALPH_SCOPE_BRANCH="+e.scope.Branch)
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", e.program, args[0], err)
	}
	return string(out), nil
}

// locate asks for the scope, which every further call gets in its environment.
func (e *external) locate(ctx context.Context) error {
	out, err := e.run(ctx, nil, "_get-scope")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if repo, found := strings.CutPrefix(line, "repo:"); found {
			e.scope.Repo = repo
		}
		if branch, found := strings.CutPrefix(line, "branch:"); found {
			e.scope.Branch = branch
		}
	}
	return nil
}

func (e external) register(ctx context.Context) (registration, error) {
	out, err := e.run(ctx, nil, "agent", "register")
	return registration{id: strings.TrimSpace(out)}, err
}

func (e external) deregister(ctx context.Context, id string) error {
	_, err := e.run(ctx, nil, "agent", "deregister", id)
	return err
}

// Status reads the line that plan-status prints.
func (e external) Status(ctx context.Context) (loop.Status, error) {
	out, err := e.run(ctx, e.stderr, "plan-status")
	if err != nil {
		return loop.Status{}, err
	}
	return parsePlanStatus(out)
}

var planStatus = regexp.MustCompile(`^([0-9]+)(?:.*?([0-9]+) active)?(?:.*?([0-9]+) done)?(?:.*?([0-9]+) blocked)?`)

// parsePlanStatus finds the numbers in "1 open, 2 active, 3 done, 4 blocked,
// 5 deleted". The first two are needed.
func parsePlanStatus(out string) (loop.Status, error) {
	found := planStatus.FindStringSubmatch(strings.TrimSpace(out))
	if found == nil || found[2] == "" {
		return loop.Status{}, fmt.Errorf("plan-status printed %q", strings.TrimSpace(out))
	}
	var n [4]int
	for i, digits := range found[1:] {
		if digits == "" {
			continue
		}
		var err error
		if n[i], err = strconv.Atoi(digits); err != nil {
			return loop.Status{}, fmt.Errorf("plan-status printed %q: %w", strings.TrimSpace(out), err)
		}
	}
	return loop.Status{Open: n[0], Active: n[1], Done: n[2], Blocked: n[3]}, nil
}

// Held finds the lines that begin with "id: ".
func (e external) Held(ctx context.Context, agentID string) ([]string, error) {
	out, err := e.run(ctx, nil, "list", "--status", "active", "--assignee", agentID, "--markdown")
	if err != nil {
		return nil, nil // the original takes a fault for "no task"
	}
	var slugs []string
	for line := range strings.Lines(out) {
		if slug, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "id: "); found {
			slugs = append(slugs, slug)
		}
	}
	return slugs, nil
}

// Release gives a task back. Its errors are nobody's business in the original.
func (e external) Release(ctx context.Context, slug, reason string) error {
	var said bytes.Buffer
	_, err := e.run(ctx, &said, "fail", slug, "--reason", reason)
	if err != nil && said.Len() > 0 {
		return errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "Error: "))
	}
	return err
}
