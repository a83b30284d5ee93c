package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// agentEnv is the environment of a command that runs an agent.
type agentEnv struct {
	programs
	scope  backlog.Scope // empty outside a repository, and without a remote
	top    string        // of the worktree, or ""
	branch string

	backlog session.Backlog // of a loop; nil without one
	store   *backlog.Store  // of that, outside of a sandbox
	copied  string          // path of the copy that the store is; empty for none
	session.Registration
	accepted string // commit of the branch that the host has as well; empty if unknown
}

// openSession detects the session's environment. A repository is optional.
func (o Options) openSession(ctx context.Context) (*agentEnv, error) {
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s := &agentEnv{programs: p, branch: o.currentBranch(ctx)}
	if dir := os.Getenv(wire.CacheEnv); dir != "" {
		if err := createCaches(dir, os.Getenv("HOME")); err != nil {
			_, _ = fmt.Fprintln(o.Stderr, "Warning:", err) // caches are optional
		}
	}
	path, err := backlog.Locate(ctx)
	if err != nil {
		return s, nil
	}
	s.top = filepath.Dir(filepath.Dir(path))
	if scope, err := backlog.DetectScope(ctx, os.Getenv); err == nil {
		s.scope = scope
	}
	return s, nil
}

// close ends the session and prints the last line of standard output.
func (o Options) close(ctx context.Context, s *agentEnv, stdout io.Writer) {
	if h, ok := s.backlog.(*host); ok {
		h.onWait(h.announce)
		if err := h.Flush(ctx); err != nil {
			_, _ = fmt.Fprintln(o.Stderr, "Warning:", termsafe.Strip(err.Error()))
		}
		h.Interrupt() // it finds out itself that the agent has ended, and need not be waited for
	}
	if s.ID != "" {
		if err := s.backlog.Deregister(ctx, s.ID); err == nil {
			_, _ = fmt.Fprintf(stdout, "deregistered %s\n", s.ID)
		}
	}
	if s.store != nil {
		_ = s.store.Close() // every change is committed
	}
	s.remove()
}

// environ returns the environment of the agent.
func (s *agentEnv) environ() []string {
	env := append(os.Environ(), "RALPH_TASK_SCRIPT="+s.task, "SCRIPT_DIR="+s.scriptDir)
	if s.binDir != "" {
		env = append(env, "PATH="+s.binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if s.scope != (backlog.Scope{}) {
		env = append(env, "RALPH_SCOPE_REPO="+s.scope.Repo, "RALPH_SCOPE_BRANCH="+s.scope.Branch)
	}
	if s.ID != "" {
		env = append(env, "RALPH_AGENT_ID="+s.ID)
	}
	if s.copied != "" {
		env = append(env, backlog.CopyEnv+"="+s.copied)
	}
	return env
}

// fullDisk returns a full disk of the session and the remedy.
func (s *agentEnv) fullDisk(sandboxed bool) (reason, remedy string) {
	git := filepath.Join(s.top, ".git") // the private one is a volume
	dir := sysinfo.FullDisk(s.top, git, wire.PrivateGitDir, os.Getenv("HOME"), s.temp)
	switch {
	case dir == "", sizedTemp(dir):
		return "", "" // see fullTemp
	case sandboxed && dir != s.top:
		remedy = `free space on the engine's disk: "docker system df" shows what uses it, "docker ralph clean" removes this sandbox`
	default:
		remedy = "free some disk space"
	}
	return "no space left on the file system of " + dir, remedy
}

// currentBranch returns the branch for the banner; git prints its errors.
func (o Options) currentBranch(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "branch", "--show-current")
	cmd.Stderr = o.Stderr
	out, _ := cmd.Output()
	return string(bytes.TrimSpace(out))
}

// git is a git command in the worktree: an agent can delete the current directory.
func (s *agentEnv) git(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.top
	return cmd
}

// head returns the worktree's commit, or "".
func (s *agentEnv) head(ctx context.Context) string {
	out, err := s.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// countCommits counts the commits in from..to, or all of to if from is empty.
func (s *agentEnv) countCommits(ctx context.Context, from, to string) int {
	span := to
	if from != "" {
		span = from + ".." + to
	}
	out, err := s.git(ctx, "rev-list", "--count", span, "--").Output()
	if err != nil {
		return 0 // from no longer exists
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return n
}

// hasCommit reports whether the repository has a commit.
func (s *agentEnv) hasCommit(ctx context.Context, commit string) bool {
	return !strings.HasPrefix(commit, "-") && s.git(ctx, "cat-file", "-e", commit+"^{commit}").Run() == nil
}

// isCommitted reports whether the current branch contains a commit.
func (s *agentEnv) isCommitted(ctx context.Context, commit string) bool {
	return !strings.HasPrefix(commit, "-") && s.git(ctx, "merge-base", "--is-ancestor", commit, "HEAD").Run() == nil
}
