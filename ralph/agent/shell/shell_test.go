package shell

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// repo is a worktree with a backlog, and the current directory of the test.
type repo struct {
	t     *testing.T
	store *backlog.Store
	agent *Agent
	out   bytes.Buffer
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
		assert.NilError(t, os.Unsetenv(name))
	}
	r := &repo{t: t}
	r.git("init", "--quiet", "--initial-branch=main")
	r.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--allow-empty", "-m", "start")
	path, err := backlog.Locate(t.Context())
	assert.NilError(t, err)
	store, err := backlog.Open(t.Context(), path, backlog.Scope{Repo: "a/b", Branch: "main"})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, store.Close()) })
	r.store = store
	r.agent = New(store, "3c9e", &r.out)
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	assert.NilError(r.t, err, string(out))
	return strings.TrimSpace(string(out))
}

func (r *repo) create(slug string, steps ...string) {
	r.t.Helper()
	assert.NilError(r.t, r.store.Create(r.t.Context(), backlog.NewTask{Slug: slug, Title: "Do " + slug, Priority: 1, Steps: steps}))
}

func (r *repo) task(slug string) backlog.Task {
	r.t.Helper()
	task, err := r.store.Show(r.t.Context(), slug)
	assert.NilError(r.t, err)
	return task
}

// said returns the rendered output so far, and how the run ended.
func (r *repo) said() (string, event.Result) {
	r.t.Helper()
	var text strings.Builder
	var result *event.Result
	for _, e := range stream.Claude().Decode(r.out.Bytes()) {
		text.WriteString(event.Render(e))
		if e, ok := e.(event.Result); ok {
			result = &e
		}
	}
	assert.Assert(r.t, result != nil)
	return text.String(), *result
}

func TestBuildCommits(t *testing.T) {
	r := newRepo(t)
	r.create("a/1", "echo one; echo two >&2; printf three", "echo x >file", "test -f file")
	assert.NilError(t, r.agent.Build(t.Context()))

	commit := r.git("rev-parse", "HEAD")
	task := r.task("a/1")
	assert.Equal(t, task.Status, "done")
	assert.Equal(t, task.Result, `{"commit":"`+commit+`"}`)
	assert.Equal(t, task.Assignee, "3c9e")
	assert.Equal(t, r.git("log", "-1", "--format=%an <%ae> %s"), "ralph <ralph@localhost> Do a/1")
	assert.Equal(t, r.git("status", "--porcelain"), "")
	text, res := r.said()
	assert.Equal(t, text, "Task a/1: Do a/1\n\n🔧 Bash\n   $ echo one; echo two >&2; printf three\none\ntwo\nthree\n"+
		"\n🔧 Bash\n   $ echo x >file\n\n🔧 Bash\n   $ test -f file\n"+
		"\nTask a/1 is done: commit "+commit+".\n\n━━ Done (success) | cost: $0 | turns: 3 ━━\n")
	assert.Assert(t, !res.Failed)
}

func TestBuildUsesGitsIdentity(t *testing.T) {
	r := newRepo(t)
	r.git("config", "user.name", "Ann")
	r.git("config", "user.email", "ann@example.com")
	r.create("a", "echo x >file")
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.git("log", "-1", "--format=%an <%ae>"), "Ann <ann@example.com>")
}

func TestBuildWithoutAChange(t *testing.T) {
	r := newRepo(t)
	r.create("a", "true")
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.task("a").Status, "done")
	assert.Equal(t, r.task("a").Result, "")
	assert.Equal(t, r.git("rev-list", "--count", "HEAD"), "1")
}

func TestBuildTakesTheStepsOwnCommit(t *testing.T) {
	r := newRepo(t)
	r.create("a", "echo x >file", "git add file && git -c user.name=t -c user.email=t@t commit -qm mine")
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.task("a").Result, `{"commit":"`+r.git("rev-parse", "HEAD")+`"}`)
	assert.Equal(t, r.git("log", "-1", "--format=%s"), "mine")
}

func TestBuildInAnEmptyRepository(t *testing.T) {
	r := newRepo(t)
	r.git("update-ref", "-d", "HEAD")
	r.create("a", "echo x >file")
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.task("a").Result, `{"commit":"`+r.git("rev-parse", "HEAD")+`"}`)
}

func TestBuildFailures(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"no steps", nil, `the task has no steps, and the shell agent does nothing but run steps. Add some: docker ralph task update a --steps '["command"]'`},
		{
			"exit code",
			[]string{"echo kept >kept", "echo why; printf '\\033[31mred\\033[0m' >&2; exit 3", "echo never >never"},
			"step 2 failed (exit code 3): echo why; printf '\\033[31mred\\033[0m' >&2; exit 3\nwhy\nred",
		},
		{"signal", []string{"kill -KILL $$"}, "step 1 failed (signal: killed): kill -KILL $$"},
		{
			"commit hook",
			[]string{"echo x >file; printf '#!/bin/sh\\necho no; exit 1' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"},
			"git commit: exit status 1\nno",
		},
		{
			"named pipe",
			[]string{"echo x >file; mkfifo .gitattributes"},
			"git add: git is blocked by .gitattributes: not a regular file",
		},
		{
			"repository without a commit",
			[]string{"mkdir new; git init -q new/app; echo x >new/app/file"},
			`"new/app" is a git repository of its own, so your commits had none of its files: remove new/app/.git and commit the files`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRepo(t)
			r.create("a", tc.steps...)
			assert.ErrorContains(t, r.agent.Build(t.Context()), tc.want)
			task := r.task("a")
			assert.Equal(t, task.Status, "open")
			assert.Equal(t, task.RetryCount, 1)
			assert.Equal(t, task.FailReason, tc.want)
			assert.Equal(t, r.git("rev-list", "--count", "HEAD"), "1")
			_, err := os.Stat("never")
			assert.ErrorIs(t, err, os.ErrNotExist)
			text, res := r.said()
			assert.Assert(t, cmp.Contains(text, tc.want))
			assert.Assert(t, res.Failed)
		})
	}
	t.Run("the worktree stays as it is", func(t *testing.T) {
		r := newRepo(t)
		r.create("a", "echo kept >kept", "false")
		assert.ErrorContains(t, r.agent.Build(t.Context()), "step 2 failed")
		assert.Equal(t, r.git("status", "--porcelain"), "?? kept")
	})
}

func TestBuildWithNothingToClaim(t *testing.T) {
	r := newRepo(t)
	assert.NilError(t, r.agent.Build(t.Context()))
	text, res := r.said()
	assert.Assert(t, cmp.Contains(text, "No task can be claimed."))
	assert.Assert(t, !res.Failed)
}

func TestFailedTaskDoesNotBlockOthers(t *testing.T) {
	r := newRepo(t)
	r.create("a", "false")
	r.create("b", "true")
	assert.ErrorContains(t, r.agent.Build(t.Context()), "step 1 failed")
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.task("b").Status, "done")
}

func TestLongOutput(t *testing.T) {
	r := newRepo(t)
	r.create("a", "yes é | head -c 3000000 | tr -d '\\n'; echo; echo last; exit 1")
	assert.ErrorContains(t, r.agent.Build(t.Context()), "step 1 failed")
	reason := r.task("a").FailReason
	assert.Assert(t, strings.HasSuffix(reason, "é\nlast"), reason)
	assert.Assert(t, len(reason) < 2*maxTail)
	assert.Assert(t, strings.Contains(reason, "\n…"), reason)
}

func TestBackgroundProcessDoesNotBlockTheStep(t *testing.T) {
	r := newRepo(t)
	r.create("a", "sleep 60 & echo $! >.ralph/pid")
	start := time.Now()
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Assert(t, time.Since(start) < 30*time.Second)
	assert.NilError(t, exec.Command("sh", "-c", "kill $(cat .ralph/pid)").Run())
	assert.Equal(t, r.task("a").Status, "done")
}

func TestLeaseIsRenewedWhileAStepRuns(t *testing.T) {
	r := newRepo(t)
	r.agent.Lease = time.Second
	r.create("a", "while [ ! -e .ralph/go ]; do sleep 0.05; done")
	ended := make(chan error)
	go func() { ended <- r.agent.Build(t.Context()) }()
	var first string
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		switch lease := r.task("a").LeaseExpiresAt; {
		case lease == "":
			return poll.Continue("not claimed")
		case first == "":
			first = lease
			return poll.Continue("not renewed")
		case lease == first:
			return poll.Continue("not renewed")
		}
		return poll.Success()
	})
	assert.NilError(t, os.WriteFile(".ralph/go", nil, 0o600))
	assert.NilError(t, <-ended)
}

func TestInterrupt(t *testing.T) {
	r := newRepo(t)
	r.create("a", "touch .ralph/running; while [ ! -e .ralph/go ]; do sleep 0.05; done", "touch never")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.agent.Build(ctx) }()
	poll.WaitOn(t, poll.FileExists(".ralph/running"))
	cancel()
	assert.NilError(t, os.WriteFile(".ralph/go", nil, 0o600))
	assert.ErrorContains(t, <-ended, "interrupted after step 1 of 2")
	task := r.task("a")
	assert.Equal(t, task.Status, "open")
	assert.Equal(t, task.FailReason, "interrupted after step 1 of 2")
}

// losing claims every task for another agent first.
type losing struct{ *backlog.Store }

func (l losing) Claim(ctx context.Context, o backlog.ClaimOptions) (backlog.Task, error) {
	_, _ = l.Store.Claim(ctx, backlog.ClaimOptions{Slug: o.Slug, Agent: "fast", Lease: time.Minute})
	return l.Store.Claim(ctx, o)
}

// A step can exit before the signal is handled in this process.
func TestInterruptAsTheStepEnds(t *testing.T) {
	for _, sig := range []string{"INT", "TERM"} {
		t.Run(sig, func(t *testing.T) {
			own := make(chan os.Signal, 1)
			signal.Notify(own, os.Interrupt, syscall.SIGTERM) // or else they end the test
			defer signal.Stop(own)
			r := newRepo(t)
			r.create("a", "touch a; kill -"+sig+" $PPID")
			assert.ErrorContains(t, r.agent.Build(t.Context()), "interrupted after step 1 of 1")
			assert.Equal(t, r.task("a").Status, "open")
		})
	}
}

func TestLostRace(t *testing.T) {
	r := newRepo(t)
	r.create("a", "true")
	r.agent.Backlog = losing{r.store}
	assert.NilError(t, r.agent.Build(t.Context()))
	assert.Equal(t, r.task("a").Assignee, "fast")
}

func TestPlan(t *testing.T) {
	r := newRepo(t)
	spec(t, "login.md", "# Login\n\n```ralph-tasks\n"+
		`{"id":"login/01","t":"One","steps":["true"]}`+"\n\n"+
		`{"id":"login/02","t":"Two","deps":["login/01"]}`+"\n```\n\n```\n{\"id\":\"x\"}\n```\n")
	spec(t, "pay.md", "~~~~ ralph-tasks\n{\"id\":\"pay/01\",\"t\":\"```\",\"spec\":\"other.md\",\"p\":0}\n~~~~\n")
	spec(t, "README.md", "No tasks here.\n")
	for _, feature := range []string{"001-cart", "002-mail"} {
		assert.NilError(t, os.MkdirAll(filepath.Join("specs", feature), 0o755))
		spec(t, filepath.Join(feature, "spec.md"), "```ralph-tasks\n{\"id\":\""+feature+"/01\",\"t\":\"T\"}\n```\n")
	}
	assert.NilError(t, r.agent.Plan(t.Context()))
	text, _ := r.said()
	assert.Assert(t, cmp.Contains(text, "inserted: 5, updated: 0, deleted: 0, skipped (done): 0"))
	assert.Assert(t, !strings.Contains(text, "Warning"))
	assert.Equal(t, r.task("login/01").SpecRef, "login.md")
	assert.Equal(t, r.task("002-mail/01").SpecRef, "002-mail/spec.md")
	assert.DeepEqual(t, r.task("login/01").Steps, []string{"true"})
	assert.DeepEqual(t, r.task("login/02").Deps, []string{"login/01"})
	assert.Equal(t, r.task("pay/01").SpecRef, "other.md")
}

func TestPlanWarnsOfMissingDependencies(t *testing.T) {
	r := newRepo(t)
	spec(t, "login.md", "```ralph-tasks\n"+`{"id":"a/02","t":"Two","deps":["a/O1"],"steps":["true"]}`+"\n```\n")
	assert.NilError(t, r.agent.Plan(t.Context()))
	text, _ := r.said()
	assert.Assert(t, cmp.Contains(text, "Warning: task 'a/02' depends on 'a/O1', which does not exist; dependency ignored"))
}

func TestPlanFailures(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"no tasks", "# Login\n", "no tasks found in specs/**/*.md"},
		{"not JSON", "# L\n```ralph-tasks\nhello\n```\n", filepath.Join("specs", "login.md") + ":3: a task must be a JSON object on one line, not: hello"},
		{"the backlog refuses", "```ralph-tasks\n{\"id\":\"a\",\"t\":\"A\"}\n\n{\"id\":\"b\"}\n```\n", filepath.Join("specs", "login.md") + `:4: field "t" is missing or empty`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRepo(t)
			spec(t, "login.md", tc.spec)
			assert.ErrorContains(t, r.agent.Plan(t.Context()), tc.want)
			_, res := r.said()
			assert.Assert(t, res.Failed)
			tasks, err := r.store.List(t.Context(), backlog.Filter{All: true})
			assert.NilError(t, err)
			assert.Equal(t, len(tasks), 0)
		})
	}
}

func spec(t *testing.T, name, text string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll("specs", 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join("specs", name), []byte(text), 0o600))
}

func TestClosedOutputFailsTheBuild(t *testing.T) {
	r := newRepo(t)
	r.create("a", "echo x >file; echo hello")
	r.agent.out = stream.NewWriter(failingWriter{})
	assert.ErrorContains(t, r.agent.Build(t.Context()), "gone")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func FuzzTasksIn(f *testing.F) {
	f.Add("```ralph-tasks\n{\"id\":\"a\",\"t\":\"A\"}\n```\n")
	f.Add("~~~ ralph-tasks\n{\"spec\":null}\n~~~~\n````\n```ralph-tasks\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := tasksIn("specs/a.md", "x.md", text)
		if err != nil {
			return
		}
		for _, l := range lines {
			assert.Assert(t, !bytes.ContainsRune(l.task, '\n'))
			assert.Assert(t, l.number > 1)
		}
	})
}
