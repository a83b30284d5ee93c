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
	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// session is the environment of a command that runs an agent.
type session struct {
	programs
	backlog *protected // nil outside a repository, or without a scope
	scope   backlog.Scope
	top     string // of the worktree, or ""
	registration
	branch string
}

// openSession detects the session's environment. A repository is optional.
func (o Options) openSession(ctx context.Context, register bool) (*session, error) {
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s := &session{programs: p, branch: o.currentBranch(ctx)}
	if dir := os.Getenv(wire.CacheEnv); dir != "" {
		if err := createCaches(dir, os.Getenv("HOME")); err != nil {
			_, _ = fmt.Fprintln(o.Stderr, "Warning:", err) // caches are optional
		}
	}
	s.openBacklog(ctx, o.Stderr)
	if register && s.backlog != nil {
		if s.registration, err = s.backlog.register(ctx); err != nil {
			// Without an agent the loop could not check, renew or release tasks.
			s.remove()
			return nil, fmt.Errorf("registering with the backlog: %w", err)
		}
		o.reportAgents(s.registration)
	}
	return s, nil
}

func (s *session) openBacklog(ctx context.Context, stderr io.Writer) {
	path, err := backlog.Locate(ctx)
	if err != nil {
		return
	}
	s.top = filepath.Dir(filepath.Dir(path))
	scope, err := backlog.DetectScope(ctx, os.Getenv)
	if err != nil {
		return
	}
	s.backlog = &protected{tasks: tasks{path: path, scope: scope}, stderr: stderr, tempDir: s.tempDir}
	s.scope = scope
}

// reportAgents reports dead and other running agents.
func (o Options) reportAgents(r registration) {
	for _, t := range r.dead {
		_, _ = fmt.Fprintf(o.Stderr, "Task %s is open again: agent %s, which held it, died.\n", termsafe.Strip(t.Slug), t.Agent)
	}
	for _, other := range r.others {
		_, _ = fmt.Fprintf(o.Stderr, "Note: agent %s is also working on this backlog, since %s UTC.\n", termsafe.Strip(other.ID), termsafe.Strip(other.StartedAt))
	}
}

// close ends the session and prints the last line of standard output.
func (o Options) close(ctx context.Context, s *session, stdout io.Writer) {
	if s.id != "" {
		if err := s.backlog.deregister(ctx, s.id); err == nil {
			_, _ = fmt.Fprintf(stdout, "deregistered %s\n", s.id)
		}
	}
	if dispatch := os.Getenv(wire.DispatchEnv); dispatch != "" && s.backlog != nil {
		_ = s.backlog.copyForHost(context.WithoutCancel(ctx), s.top, dispatch) // or else the host requests it
	}
	if s.hold != nil {
		_ = s.hold.Release() // the process's exit does it too
	}
	s.remove()
}

// environ returns the environment of the agent.
func (s *session) environ() []string {
	env := append(os.Environ(), "RALPH_TASK_SCRIPT="+s.task, "SCRIPT_DIR="+s.scriptDir)
	if s.binDir != "" {
		env = append(env, "PATH="+s.binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if s.scope != (backlog.Scope{}) {
		env = append(env, "RALPH_SCOPE_REPO="+s.scope.Repo, "RALPH_SCOPE_BRANCH="+s.scope.Branch)
	}
	if s.id != "" {
		env = append(env, "RALPH_AGENT_ID="+s.id)
	}
	return env
}

// fullDisk returns a full disk of the session and the remedy.
func (s *session) fullDisk(sandboxed bool) (reason, remedy string) {
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

// head returns the worktree's commit, or "".
func head(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// countCommits counts the commits in from..to, or all of to if from is empty.
func countCommits(ctx context.Context, from, to string) int {
	span := to
	if from != "" {
		span = from + ".." + to
	}
	out, err := exec.CommandContext(ctx, "git", "rev-list", "--count", span, "--").Output()
	if err != nil {
		return 0 // from no longer exists
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return n
}

// isCommitted reports whether the current branch contains a commit.
func isCommitted(ctx context.Context, commit string) bool {
	return !strings.HasPrefix(commit, "-") && exec.CommandContext(ctx, "git", "merge-base", "--is-ancestor", commit, "HEAD").Run() == nil
}

// clone creates a temporary copy of a commit. Its objects stay in the repository.
func clone(ctx context.Context, commit string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "ralph-check-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-checkout", ".", dir},
		{"-C", dir, "checkout", "--quiet", "--detach", commit},
	} {
		if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			remove()
			return "", nil, fmt.Errorf("copying the commit: %w: %s", err, strings.TrimSpace(string(out)))
		}
	}
	return dir, remove, nil
}
