package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// A loop that was killed has left commits that were never checked.
func TestCommitsOfAKilledLoop(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*gitLoop)
		ref  string // empty if they stay
		note string
		stop Stop
	}{
		{name: "without a task", ref: "refs/heads/ralph-attempts/run/1", note: "- without a task: `refs/heads/ralph-attempts/run/1`\n"},
		{
			name: "of a task", ref: "refs/heads/ralph-attempts/a/4", note: "- `a`: `refs/heads/ralph-attempts/a/4`\n",
			set: func(g *gitLoop) {
				g.backlog.tasks["a"] = session.Task{Status: statusOpen, Attempt: 4}
				g.Died = []session.Released{{Agent: "b", Slug: "b"}, {Agent: "b", Slug: "a"}}
			},
		},
		{name: "the host has no commit", set: func(g *gitLoop) { g.Accepted = "" }},
		{name: "the sandbox lacks the commit", set: func(g *gitLoop) { g.Accepted = strings.Repeat("1", 40) }},
		{name: "live", set: func(g *gitLoop) { g.Reset = nil }},
		{name: "another session", set: func(g *gitLoop) { g.OtherSession = func() string { return "ralph shell" } }},
		{
			name: "git fails", stop: NoGit,
			set: func(g *gitLoop) {
				g.Reset = func(context.Context, string) ([]string, error) {
					return nil, errors.New("resetting the branch: no git")
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, "true")
			g.git("commit", "-q", "--allow-empty", "-m", "killed")
			killed := g.git("rev-parse", "HEAD")
			g.Accepted = g.start
			if tc.set != nil {
				tc.set(g)
			}
			report, err := Run(t.Context(), g.Options)
			if tc.stop != noStop {
				assert.Equal(t, report.Stop, tc.stop)
				assert.Error(t, err, "resetting the branch: no git")
				assert.Equal(t, len(*g.notes), 0)
				return
			}
			assert.NilError(t, err)
			assert.Check(t, cmp.Contains((*g.notes)[0], tc.note))
			if tc.ref == "" {
				assert.Equal(t, g.git("rev-parse", "HEAD"), killed)
				assert.Equal(t, (*g.notes)[0], "")
				return
			}
			assert.Equal(t, g.git("rev-parse", tc.ref), killed)
			assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
			assert.Check(t, cmp.Contains(g.out.String(), "Not accepted: 1 commit, now at "+tc.ref+"\n"))
		})
	}
}

// A killed loop has rewritten commits that the host has, or removed some: nothing on top of that is taken.
func TestRewrittenBranchOfAKilledLoop(t *testing.T) {
	for name, left := range map[string][]string{"amended": {"commit", "-q", "--allow-empty", "--amend", "-m", "amended"}, "moved back": {"reset", "-q", "--hard", "HEAD^"}} {
		t.Run(name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, "true")
			g.git("commit", "-q", "--allow-empty", "-m", "accepted")
			g.Accepted = g.git("rev-parse", "HEAD")
			g.git(left...)
			killed := g.git("rev-parse", "HEAD")

			_, err := Run(t.Context(), g.Options)
			assert.NilError(t, err)
			assert.Equal(t, g.git("rev-parse", "HEAD"), g.Accepted)
			assert.Equal(t, g.git("rev-parse", "refs/heads/ralph-attempts/run/1"), killed)
		})
	}
}

// What another session may have committed stays, as does what is in the user's own folder.
func TestBranchIsNotResetFromUnderOthers(t *testing.T) {
	const warning = `Warning: commits that were not accepted stay on the branch while "ralph shell" runs in this sandbox: they may be its own`
	for name, warnings := range map[string]int{"another session": 1, "live": 0} {
		t.Run(name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, commit("1"), commit("2"))
			g.backlog.held = []string{"a"}
			if name == "live" {
				g.Reset = nil
			} else {
				g.OtherSession = func() string { return "ralph shell" }
			}
			report, err := Run(t.Context(), g.Options)
			assert.ErrorContains(t, err, "unfinished tasks: a")
			assert.Equal(t, g.git("ls-files"), "1.txt\n2.txt")
			assert.Equal(t, strings.Count(g.errs.String(), warning), warnings, g.errs.String())
			assert.Equal(t, report.Iterations[1].Commit, g.git("rev-parse", "HEAD"))
			assert.Equal(t, len(g.Attempts.List(t.Context())), 0)
			assert.Equal(t, len(g.backlog.ended), 0)
		})
	}
}

// Changes that the user had before are not the run's.
func TestResetKeepsWhatWasThereBefore(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1")+"echo 2 > 2.txt; exit 1")
	g.backlog.held = []string{"a"}
	assert.NilError(t, os.WriteFile(filepath.Join(g.Dir, "mine"), nil, 0o600))
	_, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "exited with code 1")
	assert.Equal(t, g.git("status", "--porcelain"), "?? mine")
	assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
}

// What a killed loop has not committed is not in a commit of the next task.
func TestUncommittedChangesOfAKilledLoop(t *testing.T) {
	const note = "Set aside 1 change that the run did not commit: "
	for _, tc := range []struct {
		name  string
		begun attempt.Begun
		set   func(*gitLoop)
		ref   string // empty if they stay
		warn  string
	}{
		{
			name: "of the task that was claimed last", begun: attempt.Begun{Agent: "dead", Claims: []string{"a 1"}}, ref: "c/4",
			set: func(g *gitLoop) {
				g.backlog.tasks["a"] = session.Task{Status: statusBlocked, ClaimedBy: "dead", Attempt: 1}
				g.Died = []session.Released{{Agent: "elsewhere", Slug: "b"}}
			},
		},
		{
			name: "of a task that was claimed again", begun: attempt.Begun{Agent: "dead", Claims: []string{"c 3"}}, ref: "c/4",
		},
		{name: "of no task", begun: attempt.Begun{Agent: "dead", Claims: []string{"c 4"}}, ref: "run/1"},
		{
			name: "beside commits", begun: attempt.Begun{Agent: "dead"}, ref: "c/4",
			set: func(g *gitLoop) {
				g.git("commit", "-q", "--allow-empty", "-m", "killed")
				g.Accepted = g.start
			},
		},
		{name: "the user's", begun: attempt.Begun{Agent: "dead", State: attempt.State{Files: []string{"half"}}}},
		{name: "live", begun: attempt.Begun{Agent: "dead"}, set: func(g *gitLoop) { g.Reset = nil }},
		{
			name: "another session", begun: attempt.Begun{Agent: "dead"}, set: func(g *gitLoop) { g.OtherSession = func() string { return "ralph shell" } },
			warn: `Warning: uncommitted changes are not set aside while "ralph shell" runs in this sandbox: they may be its own`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a", "b"}, "git add -A; git commit -q --allow-empty -m b; touch $BACKLOG/b")
			w := attempt.Worktree(g.Dir)
			g.backlog.tasks["c"] = session.Task{Status: statusDone, ClaimedBy: "dead", Attempt: 4}
			assert.NilError(t, w.Begin(tc.begun))
			assert.NilError(t, os.WriteFile(filepath.Join(g.Dir, "half"), nil, 0o600))
			if tc.set != nil {
				tc.set(g)
			}
			_, _ = Run(t.Context(), g.Options)
			committed := g.git("show", "--format=", "--name-only", "HEAD")
			assert.Check(t, cmp.Contains(g.errs.String(), tc.warn))
			if tc.ref == "" {
				assert.Equal(t, committed, "half")
				assert.Equal(t, len(w.List(t.Context())), 0)
				return
			}
			ref := attemptref.Prefix + tc.ref
			assert.Equal(t, committed, "")
			assert.Equal(t, g.git("show", "--format=", "--name-only", ref), "half")
			if tc.name == "beside commits" {
				assert.Check(t, cmp.Contains(g.out.String(), "Not accepted: 1 commit and 1 change, now at "+ref+"\n"))
			} else {
				assert.Check(t, cmp.Contains(g.out.String(), note+ref+"\n"))
			}
			found, err := w.Begun()
			assert.NilError(t, err)
			assert.Assert(t, found == nil)
		})
	}
}

// The record of a run is there until the loop has set its changes aside.
func TestRunIsRecorded(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, "tr '\\0' , <.git/"+attemptref.BegunFile+" >$DIR/record")
	g.backlog.tasks["b"] = session.Task{Status: statusBlocked, ClaimedBy: g.AgentID, Attempt: 3}
	assert.NilError(t, os.WriteFile(filepath.Join(g.Dir, "mine"), nil, 0o600))
	_, _ = Run(t.Context(), g.Options)
	record, err := os.ReadFile(filepath.Join(g.dir(), "record"))
	assert.NilError(t, err)
	assert.Equal(t, string(record), g.AgentID+",1,b 3,1,mine,0")
	_, err = os.Stat(filepath.Join(g.Dir, ".git", attemptref.BegunFile))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// A git directory that a run has broken is replaced before the next loop, which then sets the run's changes aside.
func TestRunOfABrokenGitDirectoryIsRecorded(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, "touch half; rm -rf .git/*")
	g.Head = func(context.Context) string { return g.start }
	report, err := Run(t.Context(), g.Options)
	assert.Equal(t, report.Stop, NoGit, err)
	found, err := attempt.Worktree(g.Dir).Begun()
	assert.NilError(t, err)
	assert.Equal(t, found.Agent, g.AgentID)
}

// Without git, no agent is started, and no task is charged: the host repairs the git directory, and starts the loop again.
func TestLoopWithoutGitStartsNoAgent(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, "true")
	g.git("config", "core.bare", "true")
	g.Head = func(context.Context) string { return g.start }
	report, err := Run(t.Context(), g.Options)
	assert.Equal(t, report.Stop, NoGit)
	assert.ErrorContains(t, err, "git directory is not that of the working tree")
	assert.Equal(t, len(*g.notes), 0)
}
