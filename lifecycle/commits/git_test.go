package commits

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestWorkspaceByDriver(t *testing.T) {
	for _, tc := range []struct {
		workspace, kind string
		clone           bool
	}{
		{config.WorkspaceAuto, config.DriverContainer, true},
		{config.WorkspaceAuto, config.DriverSbx, true},
		{config.WorkspaceAuto, config.DriverDockerSandbox, false},
		{config.WorkspaceClone, config.DriverContainer, true},
		{config.WorkspaceClone, config.DriverSbx, true},
		{config.WorkspaceLive, config.DriverContainer, false},
		{config.WorkspaceLive, config.DriverSbx, false},
	} {
		var cfg config.Effective
		cfg.Sandbox.Workspace = tc.workspace
		assert.Equal(t, WantsClone(cfg, tc.kind), tc.clone, "%+v", tc)
	}
}

// A fetch that was cut off would go on in the sandbox for a while, and look like an
// agent that may commit.
func TestRunningFetchCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Git
		var finals []string
		begun, free := make(chan struct{}), make(chan struct{})
		stop := g.follow(t.Context(), func(ctx context.Context, final string) (gitsync.Result, string, error) {
			if finals = append(finals, final); len(finals) == 2 {
				close(begun)
				<-free
			}
			return gitsync.Result{Commits: 3}, "tip", ctx.Err()
		})
		<-begun
		time.AfterFunc(fetchGrace/2, func() { close(free) })
		stop()
		assert.DeepEqual(t, finals, []string{"", "tip"})
		assert.Equal(t, g.result.Commits, 6)
	})
}

// A branch that came while the agent worked is reported at the end, with its submodule.
func TestSubmodulesOfEarlierFetchesAreReported(t *testing.T) {
	var g Git
	g.add(gitsync.Result{
		Others:     map[string]string{"refs/heads/new": "refs/ralph/ralph-test/new"},
		Submodules: map[string]string{"refs/heads/new": "lib"},
	})
	notes := strings.Join(g.add(gitsync.Result{}).Notes(), "\n")
	assert.Assert(t, is.Contains(notes, `adds or changes the submodule "lib"`))
}

// answering is a sandbox in which nothing runs, and whose git gives one answer.
type answering struct {
	lifecycle.Driver
	answer string
}

func (answering) Busy(context.Context, lifecycle.Sandbox) (bool, error) { return false, nil }

func (answering) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	return nil, nil
}

func (a answering) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	_, err := p.Stdout.Write([]byte(a.answer))
	return 0, err
}

// A fetch that is repeated after a lost connection does not report the same commits again.
func TestCommitsAreReportedOnce(t *testing.T) {
	wt, id := repository(t)
	var said bytes.Buffer
	sb := lifecycle.Sandbox{Name: "ralph-test", Root: wt.Root}
	h := host.Host{StateDir: t.TempDir(), Stderr: &said}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	assert.NilError(t, err)
	g := &Git{Host: h, Driver: answering{answer: "cut"}, Repo: repo}
	g.add(gitsync.Result{Branch: "main", Commits: 2})
	assert.ErrorContains(t, g.Fetch(t.Context(), sb), "commits stay in sandbox ralph-test: ")
	g.Driver = answering{answer: id + " refs/heads/main\n- HEAD refs/heads/main\n\n"}
	assert.NilError(t, g.Fetch(t.Context(), sb))
	assert.Equal(t, strings.Count(said.String(), "2 commits of the sandbox are on your branch main\n"), 1, said.String())
}

// Between the note that a command may commit and the start of its agent, nothing
// runs in the sandbox.
func TestCommitsAreNotSavedWhileAnAgentStarts(t *testing.T) {
	wt, id := repository(t)
	h := host.Host{StateDir: t.TempDir(), Stderr: new(bytes.Buffer)}
	sb := lifecycle.Sandbox{Name: "ralph-test", Root: wt.Root}
	command := func() *Git {
		repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
		assert.NilError(t, err)
		return &Git{
			Host: h, Driver: answering{answer: id + " refs/heads/main\n- HEAD refs/heads/main\n\n"},
			Repo: repo,
		}
	}
	first, second := command(), command()
	assert.NilError(t, first.Repo.MarkDirty(t.Context()))

	leave, err := h.ShareAgents(t.Context(), sb.Name, func(bool) error { return nil })
	assert.NilError(t, err)
	assert.NilError(t, second.Repo.MarkDirty(t.Context()))
	assert.NilError(t, first.Fetch(t.Context(), sb))
	assert.Assert(t, !gitsync.AllFetched(h.StateDir, sb.Name))

	leave()
	assert.NilError(t, second.Fetch(t.Context(), sb))
	assert.Assert(t, gitsync.AllFetched(h.StateDir, sb.Name))
	unlock, err := h.TryLockAgents(sb.Name)
	assert.NilError(t, err)
	assert.Assert(t, unlock != nil, "a fetch has left it locked")
}

// repository creates a repository with one commit.
func repository(t *testing.T) (wt gitrepo.Worktree, tip string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	id, err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "HEAD").Output()
	assert.NilError(t, err)
	wt, err = gitrepo.Detect(t.Context(), root, func(name string) string {
		return map[string]string{"RALPH_SCOPE_REPO": "acme/shop"}[name]
	})
	assert.NilError(t, err)

	return wt, strings.TrimSpace(string(id))
}

// A repair that could fetch nothing leaves what came before it to be told.
func TestSyncResultsAreAdded(t *testing.T) {
	var g Git
	g.add(gitsync.Result{Commits: 1, Others: map[string]string{"a": "b"}, Kept: map[string]string{"c": "d"}})
	res := g.add(gitsync.Result{})
	assert.Equal(t, res.Commits, 1)
	assert.DeepEqual(t, res.Others, map[string]string{"a": "b"})
	assert.DeepEqual(t, res.Kept, map[string]string{"c": "d"})
}
