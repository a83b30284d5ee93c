package loop

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// resultBacklog records the commits of finished tasks.
type resultBacklog struct{ *fileBacklog }

func (b resultBacklog) RenameCommit(_ context.Context, slug, from, to string) error {
	b.note("rename %s: %s %s", slug, from, to)
	return nil
}

func newLeaveOutLoop(t *testing.T, tasks []string, scripts ...string) *gitLoop {
	t.Helper()
	g := newGitLoop(t, tasks, scripts...)
	g.Backlog = resultBacklog{g.backlog}
	g.LeaveOut = func(ctx context.Context) (func(context.Context) (amend.LeftOut, error), error) {
		start, err := amend.Worktree(g.Dir).Begin(ctx)
		return start.LeaveOut, err
	}
	return g
}

const (
	nestedRepository = "mkdir -p app && git init -q app && echo {} > app/p.json && git -C app add -A && { git -C app commit -qm app; true; }; "
	commitAll        = "git add -A 2>/dev/null; git commit -qm all; "
	nestedReason     = `"app" is a git repository of its own, so your commits had none of its files: remove app/.git and commit the files`
	rawReason        = `"a.bin" needs the git filter "lfs", which this sandbox does not have: do not commit it`
)

func TestTaskWhoseCommitsLackFilesIsNotDone(t *testing.T) {
	for name, tc := range map[string]struct{ first, reason, status, left string }{
		"nested repository": {nestedRepository, nestedReason, "?? app/", ""},
		"raw content":       {"echo '*.bin filter=lfs' > .gitattributes; echo raw > a.bin; ", rawReason, "", "a.bin"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newLeaveOutLoop(t, []string{"a", "b"}, tc.first+"echo 1 > 1.txt; "+commitAll+"touch $BACKLOG/a", "echo 2 > 2.txt; "+commitAll+"touch $BACKLOG/b")
			g.Checks = []string{"true"}
			report, err := Run(t.Context(), g.Options)
			assert.ErrorContains(t, err, "unfinished tasks: a")
			assert.Equal(t, report.Stop, Unfinished)
			assert.DeepEqual(t, g.backlog.notes[0], "reopen a: "+tc.reason)
			first, second := report.Iterations[0], report.Iterations[1]
			assert.Equal(t, first.Outcome, outcomeFailed)
			assert.Equal(t, len(first.Checks), 0)
			assert.Check(t, cmp.Contains(g.errs.String(), "Warning: left out of the commits: "+tc.reason+"\n"))
			assert.Check(t, cmp.Contains(g.out.String(), "reopened a\n"))
			assert.Check(t, cmp.Contains((*g.notes)[1], "its task is open again:\n\n- "+tc.reason+"\n"))

			assert.Equal(t, second.Outcome, outcomeDone, g.out.String()+g.errs.String())
			assert.Equal(t, g.git("status", "--porcelain"), tc.status)
			files := g.git("ls-tree", "-r", "--name-only", "HEAD")
			assert.Check(t, cmp.Contains(files, "1.txt\n2.txt"))
			assert.Check(t, !strings.Contains(files, "app") && !strings.Contains(files, "a.bin"), files)
			assert.Equal(t, second.Commit, g.git("rev-parse", "HEAD"))
			if tc.left != "" {
				assert.Equal(t, g.git("show", "--format=", "--name-only", g.Attempts.List(t.Context())["a"][0]), tc.left)
			}
			for _, note := range g.backlog.notes[1:] {
				assert.Check(t, strings.HasPrefix(note, "rename b: "), note)
			}
		})
	}
}

// A repository in a subdirectory fails the task that has left it, until that is repaired, and no
// other one, although each commits it.
func TestNestedRepositoryFailsOnlyItsTask(t *testing.T) {
	const named = `printf '{"commit":"%s"}' $(git rev-parse HEAD) > $DIR/result; touch $BACKLOG/b`
	g := newLeaveOutLoop(t, []string{"a", "b"},
		nestedRepository+commitAll+"touch $BACKLOG/a",
		"echo b > b.txt; "+commitAll+named,
		commitAll+"touch $BACKLOG/a",
		"rm -rf app/.git; "+commitAll+"touch $BACKLOG/a",
	)
	b := &reasonBacklog{resultBacklog{g.backlog}, g.dir()}
	g.Backlog = b
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err, g.out.String()+g.errs.String())
	var outcomes []string
	for _, it := range report.Iterations {
		outcomes = append(outcomes, it.Outcome)
	}
	assert.DeepEqual(t, outcomes, []string{outcomeFailed, outcomeDone, outcomeFailed, outcomeDone})
	assert.Equal(t, g.git("ls-tree", "-r", "--name-only", "HEAD"), "app/p.json\nb.txt")
	assert.Check(t, !strings.Contains(g.git("log", "--raw", "-m", "--format="), " 160000 "))
	assert.Equal(t, len(g.backlog.notes), 3)
	assert.Equal(t, g.backlog.notes[0], "reopen a: "+nestedReason)
	assert.Check(t, strings.HasPrefix(g.backlog.notes[1], "rename b: ") && strings.HasSuffix(g.backlog.notes[1], " "+g.git("rev-parse", "HEAD~")), g.backlog.notes[1])
	assert.Equal(t, g.backlog.notes[2], "reopen a: "+nestedReason)
}

// reasonBacklog has the reasons and results of tasks.
type reasonBacklog struct {
	resultBacklog
	dir string
}

func (b *reasonBacklog) Tasks(ctx context.Context) (map[string]session.Task, error) {
	tasks, err := b.resultBacklog.Tasks(ctx)
	for slug, task := range tasks {
		for _, note := range b.notes {
			if reason, is := strings.CutPrefix(note, "reopen "+slug+": "); is {
				task.Reason = reason
			}
		}
		if slug == "b" && task.Status != statusOpen {
			result, _ := exec.CommandContext(ctx, "cat", b.dir+"/result").Output()
			var named struct{ Commit string }
			_ = json.Unmarshal(result, &named) // none yet
			task.Commit = named.Commit
		}
		tasks[slug] = task
	}
	return tasks, err
}

// The reason of a run that ended otherwise says what its commits lack, too.
func TestReleasedTaskLearnsWhatWasLeftOut(t *testing.T) {
	g := newLeaveOutLoop(t, []string{"a"}, nestedRepository+commitAll+"exit 1")
	g.backlog.held = []string{"a"}
	_, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "exited with code 1")
	assert.DeepEqual(t, g.backlog.notes, []string{"release a: session exited without completing task: exited with code 1\n" + nestedReason})
	assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
}

// A link that a run has removed itself is left out without a word about the task.
func TestRepairedLinkIsNotReported(t *testing.T) {
	g := newLeaveOutLoop(t, []string{"a"}, nestedRepository+commitAll+"git rm -q --cached app; rm -rf app/.git; "+commitAll+"touch $BACKLOG/a")
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeDone)
	assert.Equal(t, len(g.backlog.notes)+len(g.errs.String()), 0, g.errs.String())
	assert.Equal(t, g.git("log", "--format=", "--name-only"), "app/p.json")
}

func TestPlanLeavesLinksOut(t *testing.T) {
	g := newLeaveOutLoop(t, []string{"a"}, nestedRepository+"echo 1 > 1.txt; "+commitAll, "true", "true")
	g.Session.Mode, g.AgentID = agent.Plan, ""
	_, err := Run(t.Context(), g.Options)
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(g.errs.String(), "Warning: left out of the commits: "+nestedReason+"\n"))
	assert.Equal(t, g.git("ls-tree", "-r", "--name-only", "HEAD"), "1.txt")
	assert.Check(t, cmp.Contains((*g.notes)[1], "cannot leave the sandbox:\n\n- "+nestedReason))
	assert.Equal(t, (*g.notes)[2], "", "only for the next run")
}

// The host refuses a branch that was rewritten; the agent learns why.
func TestRewrittenBranchStays(t *testing.T) {
	g := newLeaveOutLoop(t, []string{"a"}, nestedRepository+"git add -A; git commit -q --amend -m amended; touch $BACKLOG/a")
	_, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "unfinished tasks: a")
	assert.DeepEqual(t, g.backlog.notes, []string{"reopen a: " + nestedReason})
	assert.Check(t, cmp.Contains(g.errs.String(), "Warning: the commits of this run cannot leave the sandbox: "+nestedReason))
	assert.Equal(t, g.git("ls-tree", "-r", "--name-only", "HEAD"), "app")
}
