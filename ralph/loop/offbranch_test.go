package loop

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// elsewhere commits on another branch, and returns to the loop's.
const elsewhere = "git checkout -qb other; echo o > o.txt; git add o.txt; git commit -qm elsewhere; git checkout -q main; "

// Neither the checks nor the user would see what a run has committed outside of the branch: another run brings it there.
func TestRunOutsideOfTheBranchIsRejected(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		attempt     string // the subjects of its commits
	}{
		{"there only", elsewhere, "elsewhere"},
		{"on the branch, too", commit("1") + elsewhere, "1"},
		{"and uncommitted changes", elsewhere + "echo x > left; ", "Uncommitted changes of task a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, tc.first+finished("a"), "git cherry-pick other; "+finished("a"))
			g.Checks = []string{"test -e o.txt"}
			report, err := Run(t.Context(), g.Options)
			assert.NilError(t, err, g.out.String()+g.errs.String())
			assert.DeepEqual(t, outcomes(report), []string{"refused a", "done a"})
			first := report.Iterations[0]
			const ref = "refs/heads/ralph-attempts/a/1"
			id := g.git("rev-parse", "--short=7", "other")
			reason := "1 commit not on the branch: " + id + ": commit to the branch that was checked out at the beginning, and delete branches that are not needed"
			assert.DeepEqual(t, []string{first.Reason, first.Attempt, first.Commit}, []string{reason, ref, ""})
			assert.Equal(t, len(first.Checks), 0)
			assert.Equal(t, len(g.backlog.ended), 1, "the host is asked for the second run only")
			assert.Equal(t, g.git("log", "--format=%s", g.start+".."+ref), tc.attempt)
			assert.Equal(t, g.git("log", "--format=%s"), "elsewhere\nstart")
			note := (*g.notes)[1]
			assert.Check(t, cmp.Contains(note, "The task a was finished before and is open again, because the session committed outside of the branch. Fix that first.\n\n"+reason+"\n"))
			assert.Check(t, cmp.Contains(note, "- `a`: `"+ref+"`\n"))
			assert.Check(t, cmp.Contains(g.errs.String(), "Warning: the run was not accepted: 1 commit not on the branch: "+id+"\n"))
		})
	}
}

func TestRunWithoutATaskOutsideOfTheBranch(t *testing.T) {
	for _, mode := range []agent.Mode{agent.Build, agent.Plan} {
		g := newGatedLoop(t, []string{"a"}, elsewhere)
		if mode == agent.Plan {
			g.Session.Mode, g.AgentID = mode, ""
		}
		report, err := Run(t.Context(), g.Options)
		assert.ErrorContains(t, err, "the commits of the last run were not accepted: 1 commit not on the branch")
		assert.Equal(t, report.Stop, Unfinished)
		assert.Equal(t, report.Iterations[0].Outcome, outcomeRefused)
		assert.Equal(t, report.Iterations[0].Attempt, "refs/heads/ralph-attempts/run/1")
		assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
		assert.Equal(t, len(g.backlog.ended), 0)
	}
}

// Commits elsewhere of a run that is not accepted anyway, of another session, or that cannot be found, do not count.
func TestOtherCommitsOutsideOfTheBranch(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		set          func(*gitLoop)
		outcome      string
		warning      string
	}{
		{name: "a failed run", script: elsewhere + "exit 1", set: func(g *gitLoop) { g.backlog.held = []string{"a"} }, outcome: outcomeFailed},
		{
			name: "another session", script: elsewhere + commit("b.txt") + finished("a"), outcome: outcomeDone, warning: `which may be commits of "ralph shell"`,
			set: func(g *gitLoop) { g.OtherSession = func() string { return "ralph shell" } },
		},
		{
			name: "nothing on the branch beside another session", script: elsewhere + finished("a"), outcome: outcomeRefused, warning: "the run was not accepted",
			set: func(g *gitLoop) { g.OtherSession = func() string { return "ralph shell" } },
		},
		{
			name: "unknown before", script: elsewhere + finished("a"), outcome: outcomeDone, warning: "no branches; commits outside of the branch are not noticed",
			set: func(g *gitLoop) {
				g.OffBranch = func(context.Context) (func(context.Context, []string) ([]string, error), error) {
					return nil, errors.New("no branches")
				}
			},
		},
		{
			name: "unknown after", script: elsewhere + finished("a"), outcome: outcomeDone, warning: "no branches",
			set: func(g *gitLoop) {
				g.OffBranch = func(context.Context) (func(context.Context, []string) ([]string, error), error) {
					return func(context.Context, []string) ([]string, error) { return nil, errors.New("no branches") }, nil
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, tc.script)
			g.MaxIterations = 1
			tc.set(g)
			report, _ := Run(t.Context(), g.Options)
			assert.Equal(t, report.Iterations[0].Outcome, tc.outcome, g.errs.String())
			assert.Check(t, cmp.Contains(g.errs.String(), tc.warning))
		})
	}
}

// A commit that the agent names is looked for as well.
func TestNamedCommitsAreLookedFor(t *testing.T) {
	var asked [][]string
	g := newGitLoop(t, []string{"b"}, `printf '{"commit":"abc"}' > $DIR/result; touch $BACKLOG/b`)
	g.Backlog = &reasonBacklog{resultBacklog{g.backlog}, g.dir()}
	g.OffBranch = func(context.Context) (func(context.Context, []string) ([]string, error), error) {
		return func(_ context.Context, named []string) ([]string, error) {
			asked = append(asked, named)
			return nil, nil
		}, nil
	}
	_, err := Run(t.Context(), g.Options)
	assert.NilError(t, err, g.out.String()+g.errs.String())
	assert.DeepEqual(t, asked, [][]string{{"abc"}})
}
