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

	"github.com/docker-ralph/docker-ralph/ralph/session"
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
