package commits

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// ended is a repository whose sandbox has run a loop with one commit that the branch lacks.
type ended struct {
	h      host.Host
	wt     gitrepo.Worktree
	sb     lifecycle.Sandbox
	commit string // of the loop
	loop   runlog.Loop
	stderr bytes.Buffer
}

func newEnded(t *testing.T) *ended {
	t.Helper()
	e := &ended{}
	e.wt, _ = repository(t)
	e.h = host.Host{StateDir: t.TempDir(), Stderr: &e.stderr}
	e.sb = lifecycle.Sandbox{Name: "ralph-test", Root: e.wt.Root, MainRoot: e.wt.MainRoot, Scope: e.wt.Scope, Private: true}
	e.commit = e.git(t, "commit-tree", "-m", "the agent's", "-p", "HEAD", "HEAD^{tree}")
	e.loop = runlog.Loop{ID: "20260102-030405-build", Mode: "build", Branch: "main", Started: time.Now(), Ended: time.Now(), Stop: "complete"}
	return e
}

func (e *ended) git(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"-C", e.wt.Root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func (e *ended) write(t *testing.T, path string, content any) {
	t.Helper()
	encoded, err := json.Marshal(content)
	assert.NilError(t, err)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, append(encoded, '\n'), 0o644))
}

// state writes what the host remembers of the sandbox.
func (e *ended) state(t *testing.T, fields map[string]any) {
	t.Helper()
	e.write(t, scopes.Path(e.h.StateDir, "ralph-test", "git", "state.json"), fields)
}

func (e *ended) unmerged() gitsync.Unmerged {
	return gitsync.Unmerged{Branch: "main", Ref: "refs/ralph/ralph-test/main", Commit: e.commit, Why: "both have moved", Hints: []string{"merge"}}
}

// A loop has succeeded once its commits are on the user's branch.
func TestEndOfALoopWithoutItsCommits(t *testing.T) {
	for _, tc := range []struct {
		name     string
		state    func(e *ended) map[string]any
		before   func(t *testing.T, e *ended)
		code     int
		stop     string
		want     int
		contains string
	}{
		{"no record", func(*ended) map[string]any { return nil }, nil, 0, "complete", 0, ""},
		{"in the way", func(e *ended) map[string]any { return map[string]any{"unmerged": e.unmerged()} }, nil, 0, "unmerged", wire.ExitUnmerged, "both have moved"},
		{"another failure", func(e *ended) map[string]any { return map[string]any{"unmerged": e.unmerged()} }, nil, 7, "complete", 7, "both have moved"},
		{"only in the sandbox", func(*ended) map[string]any {
			return map[string]any{"unmerged": gitsync.Unmerged{Branch: "main", Why: "held back"}}
		}, nil, 0, "unmerged", wire.ExitUnmerged, "held back"},
		{"merged since", func(e *ended) map[string]any { return map[string]any{"unmerged": e.unmerged()} }, func(t *testing.T, e *ended) {
			t.Helper()
			e.git(t, "reset", "-q", e.commit)
		}, 0, "complete", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnded(t)
			if state := tc.state(e); state != nil {
				e.state(t, state)
			}
			if tc.before != nil {
				tc.before(t, e)
			}
			e.loop.ExitCode = tc.code
			end := EndOf(t.Context(), e.h, e.sb, e.loop)
			assert.Equal(t, end.Stop, tc.stop)
			assert.Equal(t, end.ExitCode, tc.want)
			assert.Assert(t, is.Contains(end.Error, tc.contains))
			e.loop.Ended = time.Time{}
			assert.Equal(t, EndOf(t.Context(), e.h, e.sb, e.loop), e.loop, "it runs")
		})
	}
}

func TestUnmergedErrorHasTheHints(t *testing.T) {
	err := NewUnmergedError(gitsync.Unmerged{Branch: "main", Why: "held back", Hints: []string{"first", "second"}})
	assert.Error(t, err, "held back")
	assert.DeepEqual(t, hint.Of(err), []string{"first", "second"})
	assert.Error(t, &UnmergedError{Unmerged: gitsync.Unmerged{Branch: "main", Ref: "refs/x"}}, "commits of the loop are not on your branch main, but at refs/x")
}

// openBacklog returns the backlog of the sandbox, with tasks that are done by these commits.
func (e *ended) openBacklog(t *testing.T, done map[string]string) *backlog.Store {
	t.Helper()
	store, err := backlogs.Open(t.Context(), e.h, gitrepo.Worktree{Root: e.sb.Root, Scope: e.sb.Scope})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, store.Close()) })
	for _, id := range []string{"a", "rewritten", "merged", "open"} {
		assert.NilError(t, store.Create(t.Context(), backlog.NewTask{Slug: id, Title: id}))
	}
	for id, commit := range done {
		_, err := store.Claim(t.Context(), backlog.ClaimOptions{Slug: id, Agent: "one", Lease: time.Hour})
		assert.NilError(t, err)
		assert.NilError(t, store.Finish(t.Context(), id, ""))
		_, err = store.Accept(t.Context(), "one", map[string]backlog.Receipt{id: {Commit: commit}})
		assert.NilError(t, err)
	}
	return store
}

// failed returns the tasks that have a reason for the next agent.
func failed(t *testing.T, store *backlog.Store) (reopened []string) {
	t.Helper()
	tasks, err := store.List(t.Context(), backlog.Filter{})
	assert.NilError(t, err)
	for _, task := range tasks {
		if task.FailReason != "" {
			assert.Equal(t, task.Status, backlog.StatusOpen)
			reopened = append(reopened, task.Slug)
		}
	}
	return reopened
}

// A sandbox that is removed leaves no task done whose commits the user's branch lacks. Commits that the user has rewritten
// since are not the sandbox's.
func TestTasksAreReopenedWithTheirSandbox(t *testing.T) {
	for _, tc := range []struct {
		name   string
		merged bool
		want   []string
	}{{"left behind", false, []string{"a"}}, {"merged", true, nil}} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnded(t)
			e.state(t, map[string]any{"unmerged": e.unmerged()})
			if tc.merged {
				e.git(t, "reset", "-q", e.commit)
			}
			rewritten := e.git(t, "commit-tree", "-m", "rewritten by the user", "-p", "HEAD", "HEAD^{tree}")
			store := e.openBacklog(t, map[string]string{"a": e.commit, "rewritten": rewritten, "merged": e.git(t, "rev-parse", "HEAD")})
			ReopenUnmerged(t.Context(), e.h, e.sb)
			assert.DeepEqual(t, failed(t, store), tc.want)
			assert.Equal(t, strings.Contains(e.stderr.String(), "stay at refs/ralph/ralph-test/main\nReopened 1 task, whose commits are not on your branch main: a\n"), !tc.merged, e.stderr.String())
		})
	}
}
