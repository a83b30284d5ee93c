package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// session is what one plan or build works with, from its start to its end.
type session struct {
	programs
	backlog *tasks // nil outside a repository, or without a scope
	top     string // of the work tree; or ""
	agentID string
	branch  string
}

// openSession looks around. Nothing is required of git: what is missing is
// left out.
func (o Options) openSession(ctx context.Context, register bool) (*session, error) {
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s := &session{programs: p, branch: o.currentBranch(ctx)}
	path, err := backlog.Locate(ctx)
	if err != nil {
		return s, nil
	}
	s.top = filepath.Dir(filepath.Dir(path))
	scope, err := backlog.DetectScope(ctx, os.Getenv)
	if err != nil {
		return s, nil
	}
	s.backlog = &tasks{path: path, scope: scope}
	if register {
		// Without an agent the loop still works; its tasks are released by
		// their leases.
		s.agentID, _ = s.backlog.register(ctx)
	}
	return s, nil
}

// close ends the session. Its line is the last on standard output.
func (o Options) close(ctx context.Context, s *session) {
	if s.agentID != "" {
		if err := s.backlog.deregister(ctx, s.agentID); err == nil {
			_, _ = fmt.Fprintf(o.Stdout, "deregistered %s\n", s.agentID)
		}
	}
	s.remove()
}

// environ is the environment of the agent and of all that it starts.
func (s *session) environ() []string {
	env := append(os.Environ(), "RALPH_TASK_SCRIPT="+s.task, "SCRIPT_DIR="+s.scriptDir)
	if s.binDir != "" {
		env = append(env, "PATH="+s.binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if s.backlog != nil {
		env = append(env, "RALPH_SCOPE_REPO="+s.backlog.scope.Repo, "RALPH_SCOPE_BRANCH="+s.backlog.scope.Branch)
	}
	if s.agentID != "" {
		env = append(env, "RALPH_AGENT_ID="+s.agentID)
	}
	return env
}

// currentBranch is for the banner only; git's complaints reach the user.
func (o Options) currentBranch(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "branch", "--show-current")
	cmd.Stderr = o.Stderr
	out, _ := cmd.Output() // git has said what is wrong
	return string(bytes.TrimSpace(out))
}

// head returns the commit of the work tree, or "".
func head(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
