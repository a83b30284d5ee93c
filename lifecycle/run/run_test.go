package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestGitMounts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wt     gitrepo.Worktree
		mounts []string
	}{
		{"main work tree", gitrepo.Worktree{Root: "/src", GitDir: "/src/.git", CommonDir: "/src/.git"}, nil},
		{"linked", gitrepo.Worktree{Root: "/wt", GitDir: "/src/.git/worktrees/wt", CommonDir: "/src/.git"}, []string{"/src/.git"}},
		{"linked below the main one", gitrepo.Worktree{Root: "/src/.worktrees/x", GitDir: "/src/.git/worktrees/x", CommonDir: "/src/.git"}, []string{"/src/.git"}},
		{"submodule", gitrepo.Worktree{Root: "/src/sub", GitDir: "/src/.git/modules/sub", CommonDir: "/src/.git/modules/sub"}, []string{"/src/.git/modules/sub"}},
		{"names that begin alike", gitrepo.Worktree{Root: "/src", GitDir: "/src.git", CommonDir: "/src.git"}, []string{"/src.git"}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.DeepEqual(t, gitMounts(tc.wt), tc.mounts) })
	}
}

func TestEnvironment(t *testing.T) {
	set := map[string]string{
		"ANTHROPIC_API_KEY": "key", "OTHER_SECRET": "no", "MINE": "a b", "TERM": "xterm", "HOME": "/home/user", "GITHUB_TOKEN": "no",
	}
	var cfg config.Effective
	cfg.Agent = config.Agent{Name: "claude", Permissions: "bypass"}
	cfg.Env.Pass = []string{"MINE", "UNSET", "MINE"}
	wt := gitrepo.Worktree{Scope: gitrepo.Scope{Repo: "o/r", Branch: "b"}, Config: userConfig("Ann", "ann@example")}
	var stderr bytes.Buffer
	h := host.Host{Stderr: &stderr, LookupEnv: func(name string) (string, bool) { v, ok := set[name]; return v, ok }}
	common := []string{
		"GIT_CONFIG_COUNT=4",
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=Ann",
		"GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=ann@example",
		"GIT_CONFIG_KEY_2=commit.gpgSign", "GIT_CONFIG_VALUE_2=false",
		"GIT_CONFIG_KEY_3=tag.gpgSign", "GIT_CONFIG_VALUE_3=false",
	}

	in := Target{Choice: Choice{Backend: host.Backend{Kind: config.DriverContainer}}, wt: wt, cfg: cfg, opts: Options{Command: "build"}}
	env, err := environment(t.Context(), h, in, nil)
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(env[0], `RALPH_CONFIG={"agent":"claude"`), env[0])
	assert.DeepEqual(t, env[1:], append([]string{"RALPH_SCOPE_REPO=o/r", "RALPH_SCOPE_BRANCH=b", "RALPH_BRANCH=b", "ANTHROPIC_API_KEY=key", "MINE=a b"}, common...))

	in.cfg.Agent.Name, in.opts.Command = "shell", "build"
	h.Terminal = noTerminal{}
	env, err = environment(t.Context(), h, in, nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, env[1:], append([]string{"TERM=xterm", "RALPH_SCOPE_REPO=o/r", "RALPH_SCOPE_BRANCH=b", "RALPH_BRANCH=b", "MINE=a b"}, common...))
	assert.Equal(t, stderr.String(), "")

	in.wt, in.opts.Command = gitrepo.Worktree{Config: userConfig("Ann", "")}, "plan"
	env, err = environment(t.Context(), h, in, nil)
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(env, "GIT_CONFIG_VALUE_0=docker-ralph"))
	assert.Assert(t, is.Contains(stderr.String(), "Warning: git has no user.name and user.email here"))
}

type noTerminal struct{ lifecycle.Terminal }

func TestEphemeralName(t *testing.T) {
	for _, name := range []string{"ralph-a-b", strings.Repeat("x", 63), strings.Repeat("x", 53) + "-yyyyyyyyy"} {
		one, two := host.EphemeralName(name), host.EphemeralName(name)
		assert.Assert(t, one != two)
		assert.Assert(t, len(one) <= 63 && !strings.Contains(one, "--") && one == strings.ToLower(one), one)
	}
}

// listed is a driver that has sandboxes.
type listed struct {
	lifecycle.Driver
	all     []lifecycle.Sandbox
	busy    map[string]bool
	removed []string
}

func (l *listed) List(context.Context) ([]lifecycle.Sandbox, error) { return l.all, nil }

func (l *listed) Busy(_ context.Context, sb lifecycle.Sandbox) (bool, error) {
	return l.busy[sb.Name], nil
}

func (l *listed) Remove(_ context.Context, sb lifecycle.Sandbox) error {
	l.removed = append(l.removed, sb.Name)
	return nil
}

func TestSweepRemovesWhatKilledDispatchesLeft(t *testing.T) {
	mine := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	sandbox := func(name string, change func(*lifecycle.Sandbox)) lifecycle.Sandbox {
		sb := lifecycle.Sandbox{Name: name, Scope: mine, Root: "/src", Ephemeral: true, State: lifecycle.Running}
		if change != nil {
			change(&sb)
		}
		return sb
	}
	d := &listed{
		all: []lifecycle.Sandbox{
			sandbox("left", nil),
			sandbox("stopped", func(s *lifecycle.Sandbox) { s.State = lifecycle.Stopped }),
			sandbox("working", nil),
			sandbox("alive", nil),
			sandbox("kept", func(s *lifecycle.Sandbox) { s.Ephemeral = false }),
			sandbox("other-scope", func(s *lifecycle.Sandbox) { s.Scope.Branch = "x" }),
			sandbox("other-tree", func(s *lifecycle.Sandbox) { s.Root = "/else" }),
		},
		busy: map[string]bool{"working": true},
	}
	h := host.Host{StateDir: t.TempDir()}
	assert.NilError(t, os.MkdirAll(h.LockDir(), 0o700))
	_, err := h.NewRecord(host.Record{ID: "A", Sandbox: "alive"})
	assert.NilError(t, err)
	killed, err := h.NewRecord(host.Record{ID: "B", Sandbox: "left"})
	assert.NilError(t, err)
	killed.Done(errors.New("killed"))

	err = sweep(t.Context(), h, d, lifecycle.Spec{Name: "new", Scope: mine, Root: "/src"}, func(context.Context, lifecycle.Sandbox) error { return nil })
	assert.NilError(t, err)
	assert.DeepEqual(t, d.removed, []string{"left", "stopped"})
}

// Errors that need no engine come first, with or without an engine.
func TestChecksComeBeforeTheEngine(t *testing.T) {
	bin := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, string(out))
	}
	repo := func(t *testing.T, toml string) string {
		t.Helper()
		dir := fs.NewDir(t, "repo", fs.WithFile("ralph.toml", toml)).Path()
		bin(dir, "init", "-q", "-b", "main")
		bin(dir, "remote", "add", "origin", "git@example.com:a/b.git")
		return dir
	}
	detached := repo(t, "")
	bin(detached, "-c", "user.name=a", "-c", "user.email=a@e", "commit", "-q", "--allow-empty", "-m", "x")
	bin(detached, "checkout", "-q", "--detach")
	noOrigin := repo(t, "")
	bin(noOrigin, "remote", "remove", "origin")

	for _, tc := range []struct {
		name, dir, err string
		confirm        func(context.Context, string) (bool, error)
	}{
		{name: "no repository", dir: t.TempDir(), err: "not inside a git repository"},
		{name: "no origin", dir: noOrigin, err: `no git remote "origin" found`},
		{name: "detached", dir: detached, err: "detached HEAD state. Checkout a branch first"},
		{name: "bad configuration", dir: repo(t, "[agent]\nnme = \"x\"\n"), err: "ralph.toml"},
		{name: "unknown agent", dir: repo(t, "[agent]\nname = \"nobody\"\n"), err: "nobody"},
		{name: "untrusted", dir: repo(t, "[env]\npass = [\"HOSTNAME\"]\n"), err: "docker ralph trust"},
		{
			name: "not trusted when asked", dir: repo(t, "[env]\npass = [\"HOSTNAME\"]\n"), err: "docker ralph trust",
			confirm: func(context.Context, string) (bool, error) { return false, nil },
		},
		{name: "good", dir: repo(t, ""), err: "connected"},
		{
			name: "trusted when asked", dir: repo(t, "[env]\npass = [\"HOSTNAME\"]\n"), err: "connected",
			confirm: func(_ context.Context, q string) (bool, error) { return strings.Contains(q, "HOSTNAME"), nil },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{
				Engine: func() (host.API, error) { return nil, errors.New("connected") },
				Dir:    tc.dir, StateDir: filepath.Join(t.TempDir(), "ralph"), LookupEnv: func(string) (string, bool) { return "", false },
				Stderr: &stderr, Confirm: tc.confirm,
			}
			assert.NilError(t, os.MkdirAll(h.StateDir, 0o700))
			_, err := Run(t.Context(), h, Options{Command: "build"})
			said := append([]string{err.Error()}, hint.Of(err)...)
			assert.Check(t, is.Contains(strings.Join(said, "\n"), tc.err))
		})
	}
}

func userConfig(name, email string) gitrepo.Config {
	return gitrepo.Config{{Section: "user", Name: "name", Value: name}, {Section: "user", Name: "email", Value: email}}
}
