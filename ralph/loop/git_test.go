package loop

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// gitLoop is a loop in a git repository, whose agent runs one script after the other.
type gitLoop struct {
	*testLoop
	t       *testing.T
	backlog *fileBacklog
	notes   *[]string
	start   string
}

func (g *gitLoop) git(args ...string) string {
	g.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(g.t.Context()), "git", args...)
	cmd.Dir = g.Dir
	out, err := cmd.CombinedOutput()
	assert.NilError(g.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func newGitLoop(t *testing.T, tasks []string, scripts ...string) *gitLoop {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.com")
	}
	b := newFileBacklog(t, tasks...)
	g := &gitLoop{testLoop: newFileLoop(t, "", b), t: t, backlog: b, notes: &[]string{}}
	program := "cd " + g.Dir + "; n=$(ls $DIR | grep -c ran); touch $DIR/ran$n; case $n in\n"
	for i, s := range scripts {
		program += strconv.Itoa(i) + ") " + s + ";;\n"
	}
	g.Agent, g.MaxIterations = noteAgent{script(program + "esac"), g.notes}, len(scripts)
	g.git("init", "-q", "-b", "main")
	g.git("commit", "-q", "--allow-empty", "-m", "start")
	g.start = g.git("rev-parse", "HEAD")
	g.Head = func(context.Context) string { return g.git("rev-parse", "HEAD") }
	w := attempt.Worktree(g.Dir)
	g.Uncommitted, g.Attempts = w.State, w
	g.Count = func(_ context.Context, from, to string) int {
		return strings.Count(g.git("rev-list", from+".."+to), "\n") + 1
	}
	return g
}

// newGatedLoop is a loop in the clone of a sandbox: the user's branch gets what the host has taken.
func newGatedLoop(t *testing.T, tasks []string, scripts ...string) *gitLoop {
	t.Helper()
	g := newGitLoop(t, tasks, scripts...)
	branch := guest.LoopBranch(t.Context(), g.Dir, "main")
	branch.Private = true
	g.Restore, g.Reset, g.OffBranch = branch.Restore, branch.Reset, branch.OffBranch
	g.Has = func(ctx context.Context, commit string) bool {
		return exec.CommandContext(ctx, "git", "-C", g.Dir, "cat-file", "-e", commit+"^{commit}").Run() == nil
	}
	g.Committed = func(ctx context.Context, commit string) bool {
		return exec.CommandContext(ctx, "git", "-C", g.Dir, "merge-base", "--is-ancestor", commit, "HEAD").Run() == nil
	}
	return g
}

// outcomes returns the outcomes of the runs of a report, with their tasks.
func outcomes(r Report) (all []string) {
	for _, it := range r.Iterations {
		all = append(all, strings.TrimSpace(it.Outcome+" "+strings.Join(it.Tasks, ",")))
	}
	return all
}
