package manage

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// userRepo makes a repository with one commit and returns git in it.
func userRepo(t *testing.T) (root string, git func(args ...string) string) {
	t.Helper()
	root = t.TempDir()
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=U", "-c", "user.email=u@e"}, args...)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "git %q: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "first")
	return root, git
}

// repoHost is the host of commands in a repository, which no engine has a sandbox of.
func repoHost(t *testing.T, root string) host.Host {
	t.Helper()
	scope := map[string]string{"RALPH_SCOPE_REPO": "acme/shop"}
	return host.Host{Dir: root, StateDir: t.TempDir(), Stderr: &bytes.Buffer{}, LookupEnv: func(name string) (string, bool) {
		value, has := scope[name]
		return value, has
	}}
}

// A log names commits of the agent's choice: those of the user's other branches are not shown.
func TestDiffOfARun(t *testing.T) {
	root, git := userRepo(t)
	h := repoHost(t, root)
	first := git("rev-parse", "HEAD")
	git("commit", "-q", "--allow-empty", "-m", "the run's")
	mine := git("rev-parse", "HEAD")
	git("switch", "-q", "-c", "private")
	git("commit", "-q", "--allow-empty", "-m", "private")
	private := git("rev-parse", "HEAD")
	git("switch", "-q", "main")

	_, err := DiffRun(t.Context(), h, LoopLog{}, 1)
	assert.ErrorContains(t, err, "no loop logs for branch main")
	log, err := runlog.Create(h.LogsDir("ralph-acme-shop-main"), runlog.Loop{Mode: "build", Branch: "main", Started: time.Now()})
	assert.NilError(t, err)
	for i, run := range []runlog.Iteration{{Commit: mine, Commits: 1}, {}, {Attempt: "refs/heads/ralph-attempts/a/1"}, {Commit: private, Commits: 1}, {Commit: "--output=x", Commits: 1}} {
		run.N = i + 1
		assert.NilError(t, log.Emit(&runlog.RunStart{N: run.N, Commit: first}))
		assert.NilError(t, log.Append(run))
	}
	assert.NilError(t, log.Finish(runlog.LoopEnd{}))

	show, err := DiffRun(t.Context(), h, LoopLog{}, 1, "--stat")
	assert.NilError(t, err)
	assert.DeepEqual(t, show.Args[len(show.Args)-4:], []string{"--stat", first, mine, "--"})
	for run, want := range map[int]string{
		2: "run 2 has no commits", 3: "run 3 has brought no commits to the branch",
		4: "are not on branch main, nor fetched", 5: "are not on branch main, nor fetched", 6: "has no completed run 6",
	} {
		_, err := DiffRun(t.Context(), h, LoopLog{}, run)
		assert.ErrorContains(t, err, want)
	}
}
