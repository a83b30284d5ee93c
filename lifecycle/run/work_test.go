package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// A loop without work ends before anything is created for it.
func TestLoopsNeedWork(t *testing.T) {
	const (
		noTasks = "nothing to build: no tasks, and no specs in ./specs"
		create  = `create a task with "docker ralph task create ID TITLE"`
		write   = "write specs in ./specs and commit them"
		commit  = "commit ./specs, or pass --with-changes"
	)
	written := func(path string) func(*workFixture) {
		return func(f *workFixture) { f.write(path) }
	}
	committed := func(path string) func(*workFixture) {
		return func(f *workFixture) {
			f.write(path)
			f.git("add", "-A")
			f.git("commit", "-qm", "specs")
		}
	}
	for _, tc := range []struct {
		name, command string
		clone         bool
		change        func(*workFixture)
		err           string
		hints         []string
	}{
		{name: "nothing", command: "build", err: noTasks, hints: []string{create, write}},
		{name: "nothing in a clone", command: "build", clone: true, err: noTasks, hints: []string{create, write}},
		{name: "no plan", command: "plan", err: "nothing to plan: no specs in ./specs", hints: []string{write}},
		{
			name: "claude", command: "plan", change: func(f *workFixture) { f.target.cfg.Agent.Name = "claude" },
			err: "nothing to plan: no specs in ./specs", hints: []string{write + `, or run "docker ralph run" and type /ralph-spec`},
		},
		{name: "no loop", command: "shell"},
		{name: "no commit", command: "build", clone: true, change: func(f *workFixture) { f.git("checkout", "-q", "--orphan", "new") }, err: noTasks, hints: []string{create, write}},
		{name: "a task", command: "build", change: (*workFixture).addTask},
		{name: "a task is no spec", command: "plan", change: (*workFixture).addTask, err: "nothing to plan: no specs in ./specs", hints: []string{write}},
		{name: "specs", command: "plan", change: written("specs/a.md")},
		{name: "specs at the top", command: "build", change: func(f *workFixture) { f.target.wt.Prefix = "sub"; f.write("specs/a.md") }},
		{name: "specs below", command: "build", change: func(f *workFixture) { f.target.wt.Prefix = "sub"; f.write("sub/specs/a.md") }},
		{name: "specs elsewhere", command: "build", change: written("sub/specs/a.md"), err: noTasks, hints: []string{create, write}},
		{name: "an empty folder", command: "build", change: func(f *workFixture) {
			assert.NilError(f.t, os.Mkdir(filepath.Join(f.target.wt.Root, "specs"), 0o700))
		}, err: noTasks, hints: []string{create, write}},
		{name: "committed", command: "build", clone: true, change: committed("specs/a.md")},
		{name: "committed below", command: "build", clone: true, change: func(f *workFixture) { f.target.wt.Prefix = "sub"; committed("sub/specs/a.md")(f) }},
		{name: "not committed", command: "build", clone: true, change: written("specs/a.md"), err: noTasks + " that are committed", hints: []string{create, commit}},
		{name: "not committed for a plan", command: "plan", clone: true, change: written("specs/a.md"), err: "nothing to plan: no specs in ./specs that are committed", hints: []string{commit}},
		{name: "sent with the changes", command: "plan", clone: true, change: func(f *workFixture) { f.target.opts.WithChanges = true; f.write("specs/a.md") }},
		{name: "included", command: "plan", clone: true, change: func(f *workFixture) { f.target.cfg.Include = []string{"specs"}; f.write("specs/a.md") }},
		{name: "a clone with files of its own", command: "build", clone: true, change: func(f *workFixture) {
			file := filepath.Join(f.host.StateDir, "scopes", f.target.spec.Name, "git", "state.json")
			assert.NilError(f.t, os.MkdirAll(filepath.Dir(file), 0o700))
			assert.NilError(f.t, os.WriteFile(file, []byte(`{"clone":true}`), 0o600))
			assert.Assert(f.t, gitsync.IsClone(f.host.StateDir, f.target.spec.Name))
		}},
		{
			name: "renamed branch", command: "build", change: func(f *workFixture) {
				f.addTask()
				f.git("branch", "-qm", "other")
				f.target.wt.Scope.Branch = "other"
			}, err: noTasks,
			hints: []string{create, `take over the tasks of branch main of acme/shop (1) with "docker ralph task adopt"`, write},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newWorkFixture(t, tc.command, tc.clone)
			if tc.change != nil {
				tc.change(f)
			}
			err := f.target.checkWork(t.Context(), f.host)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.Error(t, err, tc.err)
			assert.DeepEqual(t, hint.Of(err), tc.hints)
		})
	}
}

// workFixture is a repository with a commit.
type workFixture struct {
	t      *testing.T
	host   host.Host
	target Target
}

func newWorkFixture(t *testing.T, command string, clone bool) *workFixture {
	t.Helper()
	f := &workFixture{t: t, host: host.Host{Dir: t.TempDir(), StateDir: t.TempDir(), LookupEnv: os.LookupEnv}}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"remote", "add", "origin", "https://git.example/acme/shop.git"},
		{"config", "user.name", "a"},
		{"config", "user.email", "a@e"},
		{"commit", "-q", "--allow-empty", "-m", "first"},
	} {
		f.git(args...)
	}
	wt, err := gitrepo.Detect(t.Context(), f.host.Dir, func(string) string { return "" })
	assert.NilError(t, err)
	f.target = Target{opts: Options{Command: command}, wt: wt}
	f.target.spec.Name, f.target.spec.Clone = "ralph-acme-shop-main", clone
	return f
}

func (f *workFixture) git(args ...string) {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), "git", append([]string{"-C", f.host.Dir}, args...)...).CombinedOutput()
	assert.NilError(f.t, err, "%s", out)
}

func (f *workFixture) write(path string) {
	f.t.Helper()
	path = filepath.Join(f.target.wt.Root, filepath.FromSlash(path))
	assert.NilError(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	assert.NilError(f.t, os.WriteFile(path, []byte("x\n"), 0o600))
}

func (f *workFixture) addTask() {
	f.t.Helper()
	s, err := backlogs.Open(f.t.Context(), f.host, f.target.wt)
	assert.NilError(f.t, err)
	defer func() { assert.NilError(f.t, s.Close()) }()
	assert.NilError(f.t, s.Create(f.t.Context(), backlog.NewTask{Slug: "a", Title: "A"}))
}
