package commits

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// cloned is a sandbox whose clone is a directory.
type cloned struct {
	lifecycle.Driver
	dir     string
	running [][]string
	others  []lifecycle.Dispatch
	asked   func() // once, before the commands are listed
	lost    error  // of the connection
	execs   int
}

func (c *cloned) Busy(context.Context, lifecycle.Sandbox) (bool, error) {
	return len(c.running) > 0, nil
}

func (c *cloned) Dispatches(context.Context, lifecycle.Sandbox) (all []lifecycle.Dispatch, _ error) {
	if c.asked != nil {
		c.asked()
		c.asked = nil
	}
	for _, command := range c.running {
		all = append(all, lifecycle.Dispatch{Command: command})
	}
	return append(all, c.others...), nil
}

func (c *cloned) Exec(ctx context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	c.execs++
	if c.lost != nil {
		return 0, c.lost
	}
	args := slices.Clone(p.Args[1:])
	for i, arg := range args {
		if arg == gitsync.Folder {
			args[i] = filepath.Join(c.dir, ".git")
		}
	}
	cmd := exec.CommandContext(ctx, p.Args[0], args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.dir, p.Stdin, p.Stdout, p.Stderr
	err := cmd.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// looping is a loop in a clone.
type looping struct {
	*ended
	driver *cloned
	git    *Git
}

func newLooping(t *testing.T) *looping {
	t.Helper()
	e := newEnded(t)
	l := &looping{ended: e, driver: &cloned{dir: filepath.Join(t.TempDir(), "clone")}}
	e.git(t, "clone", "-q", e.wt.Root, l.driver.dir)
	tip := e.git(t, "rev-parse", "main")
	e.state(t, map[string]any{"branch": "main", "synced": tip, "tips": map[string]string{"refs/heads/main": tip}, "clone": true})
	e.git(t, "update-ref", "refs/ralph/ralph-test/@base", "main")
	l.git = l.open(t)
	l.git.ForLoop()
	leave, err := l.git.Enter(t.Context(), e.sb)
	assert.NilError(t, err)
	leave()
	return l
}

// open opens the clone for another command.
func (l *looping) open(t *testing.T) *Git {
	t.Helper()
	repo, err := gitsync.Open(l.wt, l.sb.Name, l.h.StateDir)
	assert.NilError(t, err)
	return &Git{Host: l.h, Driver: l.driver, Repo: repo, aside: repo}
}

func (l *looping) inside(t *testing.T, args ...string) string {
	t.Helper()
	return l.ended.git(t, append([]string{"-C", l.driver.dir}, args...)...)
}

func (l *looping) commit(t *testing.T, path string) string {
	t.Helper()
	assert.NilError(t, os.WriteFile(filepath.Join(l.driver.dir, path), []byte("the agent's\n"), 0o644))
	l.inside(t, "add", path)
	l.inside(t, "commit", "-q", "-m", path)
	return l.inside(t, "rev-parse", "HEAD")
}

func TestTake(t *testing.T) {
	const submodule = `the commits add or change the submodule "lib", which the user's repository does not take; none of them may, even if a later one removes it`
	for _, tc := range []struct {
		name    string
		before  func(t *testing.T, l *looping)
		arrives bool
		want    session.Verdict // but for its tree
		err     string
		stderr  string
	}{
		{name: "taken", arrives: true},
		{
			name: "both sides have commits",
			before: func(t *testing.T, l *looping) {
				t.Helper()
				l.ended.git(t, "commit", "-q", "--allow-empty", "-m", "the user's")
			},
			want: session.Verdict{Finish: "your branch and the sandbox's have diverged: your branch main was not fast-forwarded, the sandbox's commits are at refs/ralph/ralph-test/main"},
		},
		{
			name: "a file in the way",
			before: func(t *testing.T, l *looping) {
				t.Helper()
				assert.NilError(t, os.WriteFile(filepath.Join(l.wt.Root, "a.txt"), []byte("the user's\n"), 0o644))
			},
		},
		{
			name: "a submodule",
			before: func(t *testing.T, l *looping) {
				t.Helper()
				l.inside(t, "update-index", "--add", "--cacheinfo", "160000,"+l.inside(t, "rev-parse", "HEAD")+",lib")
			},
			want: session.Verdict{Refused: submodule},
		},
		{
			name:   "no engine",
			before: func(_ *testing.T, l *looping) { l.driver.lost = errors.New("connection refused") },
			err:    "fetching commits from sandbox ralph-test: fetching from sandbox ralph-test: connection refused",
		},
		{
			name: "no scanner",
			before: func(_ *testing.T, l *looping) {
				l.git.scan = &Scan{Host: l.h, Root: l.wt.Root, Mode: CredScanBlock, Connected: func() (host.API, error) { return nil, errors.New("no engine") }}
			},
			err: "no engine",
		},
		{
			name: "no scanner, which is a warning",
			before: func(_ *testing.T, l *looping) {
				l.git.scan = &Scan{Host: l.h, Root: l.wt.Root, Mode: CredScanWarn, Connected: func() (host.API, error) { return nil, errors.New("no engine") }}
			},
			arrives: true, stderr: "Warning: the sandbox's new commits were not scanned for secrets",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLooping(t)
			if tc.before != nil {
				tc.before(t, l)
			}
			before := l.ended.git(t, "rev-parse", "main")
			run := l.commit(t, "a.txt")
			if tc.arrives {
				l.commit(t, "of-the-next-run.txt")
			}

			v, err := l.git.Take(t.Context(), l.sb, run)

			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
			} else {
				assert.NilError(t, err)
				if v.Refused == "" {
					tc.want.Tree = l.inside(t, "rev-parse", run+"^{tree}")
				}
				assert.DeepEqual(t, v, tc.want)
			}
			if tc.arrives {
				before = run
			}
			assert.Equal(t, l.ended.git(t, "rev-parse", "main"), before)
			assert.Assert(t, is.Contains(l.stderr.String(), tc.stderr))
			l.git.ReportTaken()
			l.git.ReportTaken()
			assert.Equal(t, strings.Count(l.stderr.String(), "1 commit of the sandbox is on your branch main\n") == 1, tc.arrives, l.stderr.String())
		})
	}
}

// Whatever fetches what a killed loop has left, the user's branch does not get it.
func TestCommitsOfAKilledLoop(t *testing.T) {
	loop, shell := []string{"ralph", "build"}, []string{"sh"}
	for _, running := range [][][]string{nil, {loop}, {shell}, {shell, loop}} {
		l := newLooping(t)
		run := l.commit(t, "accepted.txt")
		_, err := l.git.Take(t.Context(), l.sb, run)
		assert.NilError(t, err)
		left := l.commit(t, "left.txt")
		l.driver.running = running
		l.sb.State, l.sb.Clone = lifecycle.Running, true
		at := host.Located{Sandbox: l.sb, Backend: host.Backend{Driver: named{l.driver}}}

		assert.NilError(t, FetchLeft(t.Context(), l.h, at))
		assert.NilError(t, FetchRunning(t.Context(), l.h, at))
		assert.NilError(t, l.git.Fetch(t.Context(), l.sb))
		other := l.open(t)
		leave, err := other.Enter(t.Context(), l.sb)
		assert.NilError(t, err)
		leave()
		assert.NilError(t, other.Fetch(t.Context(), l.sb))
		assert.NilError(t, Save(l.h, at.Backend, &Scan{Host: l.h}, l.wt)(t.Context(), l.sb))

		assert.Equal(t, l.ended.git(t, "rev-parse", "main"), run)
		assert.Equal(t, l.ended.git(t, "rev-parse", "refs/ralph/ralph-test/main"), left)
		assert.Assert(t, is.Contains(l.stderr.String(), "Commits of a run that was not completed are not on your branch main, but at refs/ralph/ralph-test/main\n"))
	}
}

// named is a driver with a name.
type named struct{ *cloned }

func (named) Name() string { return "container" }

// A command beside a loop goes on after it.
func TestCommandGoesOnAfterALoop(t *testing.T) {
	l := newLooping(t)
	l.driver.running = [][]string{{"sh"}}
	_, err := l.git.Take(t.Context(), l.sb, l.commit(t, "accepted.txt"))
	assert.NilError(t, err)
	assert.NilError(t, l.git.Fetch(t.Context(), l.sb))
	own := l.commit(t, "own.txt")
	assert.NilError(t, l.open(t).Fetch(t.Context(), l.sb))
	assert.Equal(t, l.ended.git(t, "rev-parse", "main"), own)
}

// The receipts of a live sandbox name the tree, too.
func TestTakeLive(t *testing.T) {
	e := newEnded(t)
	for commit, want := range map[string]string{
		e.commit:                e.git(t, "rev-parse", "main^{tree}"),
		strings.Repeat("1", 40): "",
		"HEAD":                  "", // an agent has sent it
	} {
		v, err := TakeLive(t.Context(), e.h, e.wt, e.sb.Name, commit)
		assert.NilError(t, err)
		assert.DeepEqual(t, v, session.Verdict{Tree: want})
	}
}

// A command does not look at git in a sandbox in which nothing has moved since the last one.
func TestPushToAnUnchangedSandbox(t *testing.T) {
	for _, command := range []string{host.ShellCommand, host.RunCommand, host.BuildCommand} {
		l := newLooping(t)
		assert.NilError(t, l.open(t).Push(t.Context(), l.sb, command, true))
		assert.NilError(t, l.open(t).Fetch(t.Context(), l.sb))
		l.driver.execs = 0
		assert.NilError(t, l.open(t).Push(t.Context(), l.sb, command, true))
		assert.Equal(t, l.driver.execs, 0, command)
		assert.NilError(t, l.open(t).Repo.MarkDirty(t.Context()))
		assert.NilError(t, l.open(t).Push(t.Context(), l.sb, command, true))
		assert.Check(t, l.driver.execs > 0, command)
	}
}

// A run begins with the user's commits, unless something else could commit in the sandbox.
func TestBeginBringsTheUsersCommits(t *testing.T) {
	const own = "x"
	for _, tc := range []struct {
		name    string
		running []lifecycle.Dispatch
		before  func(t *testing.T, l *looping)
		brought bool
		stderr  string
	}{
		{name: "alone", brought: true},
		{name: "a service", running: []lifecycle.Dispatch{{ID: lifecycle.NewServiceID()}}, brought: true},
		{name: "beside a shell", running: []lifecycle.Dispatch{{ID: "y"}}},
		{name: "on another branch", before: func(t *testing.T, l *looping) {
			t.Helper()
			l.ended.git(t, "switch", "-q", "-c", "other")
		}},
		{name: "on another branch meanwhile", brought: true, before: func(t *testing.T, l *looping) {
			t.Helper()
			l.driver.asked = func() { l.ended.git(t, "switch", "-q", "-c", "other") }
		}},
		{name: "on no branch meanwhile", brought: true, before: func(t *testing.T, l *looping) {
			t.Helper()
			l.driver.asked = func() { l.ended.git(t, "switch", "-q", "--detach") }
		}},
		{name: "with commits that were not accepted", before: func(t *testing.T, l *looping) {
			t.Helper()
			l.commit(t, "left.txt")
		}},
		{name: "no engine", before: func(_ *testing.T, l *looping) { l.driver.lost = errors.New("connection refused") }, stderr: "Warning: sandbox ralph-test does not have your latest commits: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLooping(t)
			l.git.Begin(t.Context(), l.sb, own)
			assert.Equal(t, l.driver.execs, 0, "the user has committed nothing")
			l.ended.git(t, "commit", "-q", "--allow-empty", "-m", "the user's")
			if tc.before != nil {
				tc.before(t, l)
			}
			want := l.inside(t, "rev-parse", "main")
			if tc.brought {
				want = l.ended.git(t, "rev-parse", "main")
			}
			l.driver.others = append(tc.running, lifecycle.Dispatch{ID: own, Command: []string{"ralph", "build"}})

			l.git.Begin(t.Context(), l.sb, own)

			assert.Equal(t, l.inside(t, "rev-parse", "main"), want, l.stderr.String())
			assert.Equal(t, l.inside(t, "status", "--porcelain"), "")
			assert.Equal(t, l.inside(t, "branch", "--show-current"), "main")
			assert.Assert(t, is.Contains(l.stderr.String(), tc.stderr))
			if !tc.brought {
				assert.Check(t, tc.stderr != "" || l.stderr.String() == "", l.stderr.String())
				return
			}
			accepted, err := l.git.Accepted(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, accepted, want)
			run := l.commit(t, "a.txt")
			_, err = l.git.Take(t.Context(), l.sb, run)
			assert.NilError(t, err)
			assert.Equal(t, l.ended.git(t, "rev-parse", "main"), run)
			left := l.commit(t, "left.txt")
			assert.NilError(t, l.git.Fetch(t.Context(), l.sb))
			assert.Equal(t, l.ended.git(t, "rev-parse", "main"), run, "the loop goes on")
			assert.Equal(t, l.ended.git(t, "rev-parse", "refs/ralph/ralph-test/main"), left)
		})
	}
}
