//go:build unix

package pullrequest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// user is a user with a repository on the branch "feature", whose origin is reached through a fake ssh. PATH has git,
// and the programs that a test adds.
type user struct {
	t              *testing.T
	dir, root      string
	host           host.Host
	stdout, stderr *bytes.Buffer
}

func newUser(t *testing.T, origin string) *user {
	t.Helper()
	u := &user{t: t, dir: t.TempDir(), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	u.root = filepath.Join(u.dir, "shop")
	t.Setenv("HOME", u.dir)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, program := range []string{"git", "sh", "cat", "touch", "dirname", "env"} {
		path, err := exec.LookPath(program)
		assert.NilError(t, err)
		assert.NilError(t, os.MkdirAll(filepath.Join(u.dir, "bin"), 0o755))
		assert.NilError(t, os.Symlink(path, filepath.Join(u.dir, "bin", program)))
	}
	u.program("ssh", `exec git receive-pack "`+u.dir+`/origin.git"`)
	t.Setenv("PATH", filepath.Join(u.dir, "bin"))
	t.Setenv("GIT_SSH_COMMAND", filepath.Join(u.dir, "bin", "ssh"))
	scope := map[string]string{"RALPH_SCOPE_REPO": "acme/shop"}
	u.host = host.Host{Dir: u.root, StateDir: filepath.Join(u.dir, "state"), Stdout: u.stdout, Stderr: u.stderr, LookupEnv: func(name string) (string, bool) {
		value, has := scope[name]
		return value, has
	}}

	assert.NilError(t, os.Mkdir(u.root, 0o755))
	u.git("init", "-q", "--bare", u.dir+"/origin.git")
	u.git("init", "-q", "-b", "main")
	u.commit("first")
	u.git("push", "-q", u.dir+"/origin.git", "main")
	u.git("remote", "add", "origin", origin)
	u.git("update-ref", "refs/remotes/origin/main", "main")
	u.git("switch", "-q", "-c", "feature")
	return u
}

// program writes a program into PATH.
func (u *user) program(name, script string) {
	u.t.Helper()
	assert.NilError(u.t, os.WriteFile(filepath.Join(u.dir, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func (u *user) git(args ...string) string {
	u.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=U", "-c", "user.email=u@e"}, args...)...)
	cmd.Dir = u.root
	out, err := cmd.CombinedOutput()
	assert.NilError(u.t, err, "git %q: %s", args, out)
	return strings.TrimSpace(string(out))
}

func (u *user) commit(subject string) string {
	u.t.Helper()
	u.git("commit", "-q", "--allow-empty", "-m", subject)
	return u.git("rev-parse", "HEAD")
}

// done adds tasks that were completed with a commit.
func (u *user) done(commit string, slugs ...string) {
	u.t.Helper()
	ctx := u.t.Context()
	wt, err := gitrepo.Detect(ctx, u.root, u.host.Getenv)
	assert.NilError(u.t, err)
	store, err := backlogs.Open(ctx, u.host, wt)
	assert.NilError(u.t, err)
	receipts := map[string]backlog.Receipt{}
	agent, err := store.RegisterAgent(ctx, backlog.Agent{PID: 1, Hostname: "h"})
	assert.NilError(u.t, err)
	for _, slug := range slugs {
		assert.NilError(u.t, store.Create(ctx, backlog.NewTask{Slug: slug, Title: "Title of " + slug}))
		_, err := store.Claim(ctx, backlog.ClaimOptions{Slug: slug, Agent: agent, Lease: backlog.DefaultLease})
		assert.NilError(u.t, err)
		assert.NilError(u.t, store.As(agent).Finish(ctx, slug, ""))
		receipts[slug] = backlog.Receipt{Commit: commit, Checks: []runlog.Check{{Command: "make test", Seconds: 1}}}
	}
	_, err = store.Accept(ctx, agent, receipts)
	assert.NilError(u.t, err)
	assert.NilError(u.t, store.Close())
}

func (u *user) open(opts Options) error {
	u.t.Helper()
	u.stdout.Reset()
	u.stderr.Reset()
	return Open(u.t.Context(), u.host, opts)
}

func (u *user) pushed() string { return u.git("ls-remote", u.dir+"/origin.git", "refs/heads/feature") }

// recorder is a fake program of a forge.
const recorder = `printf '%s\n' "$@" >$(dirname "$0")/../args
cat >$(dirname "$0")/../input
git rev-parse --show-toplevel >$(dirname "$0")/../toplevel 2>&1
git status >/dev/null 2>&1
echo https://forge.example/1`

func (u *user) read(name string) string {
	u.t.Helper()
	content, err := os.ReadFile(filepath.Join(u.dir, name))
	assert.NilError(u.t, err)
	return strings.TrimSpace(string(content))
}

func TestPullRequest(t *testing.T) {
	u := newUser(t, "git@github.com:acme/shop.git")
	u.program("gh", recorder)
	u.done(u.git("rev-parse", "main"), "merged/01")
	tip := u.commit("Add it")
	u.done(tip, "shop/01")

	assert.NilError(t, u.open(Options{Draft: true, DryRun: true}))
	assert.Assert(t, is.Contains(u.stderr.String(), "Would push feature and open a pull request into main at https://github.com/acme/shop"))
	assert.Assert(t, is.Contains(u.stdout.String(), "Title of shop/01\n\n| task |"))
	assert.Equal(t, u.pushed(), "")

	assert.NilError(t, u.open(Options{Draft: true}), u.stderr)
	assert.Equal(t, u.pushed(), tip+"\trefs/heads/feature")
	assert.Equal(t, u.read("args"), "pr\ncreate\n--repo=github.com/acme/shop\n--head=feature\n--base=main\n--title=Title of shop/01\n--body-file=-\n--draft")
	assert.Assert(t, is.Contains(u.read("input"), "| `shop/01` | `Title of shop/01` | `make test` passed in 1s |"))
	assert.Assert(t, is.Contains(u.read("input"), "1 task, 1 commit."))
	assert.Assert(t, is.Contains(u.read("toplevel"), "not a git repository"))
	assert.Equal(t, u.stdout.String(), "https://forge.example/1\n")

	u.program("gh", "exit 3")
	err := u.open(Options{})
	assert.Error(t, err, "feature was pushed, but gh failed: exit status 3")
	assert.NilError(t, os.Remove(filepath.Join(u.dir, "bin", "gh")))
	u.commit("Add more")
	assert.NilError(t, u.open(Options{Title: "T"}))
	assert.Assert(t, is.Contains(u.stdout.String(), "https://github.com/acme/shop/compare/main...feature?expand=1&body="))
	assert.Assert(t, is.Contains(u.stdout.String(), "&title=T\n"))
}

func TestMergeRequest(t *testing.T) {
	u := newUser(t, "git@gitlab.com:acme/shop.git")
	u.program("glab", recorder)
	u.commit("Add @one")
	u.commit("Add two")
	assert.NilError(t, u.open(Options{Base: "main"}))
	assert.Equal(t, u.read("args"), "mr\ncreate\n--yes\n--repo=https://gitlab.com/acme/shop\n--source-branch=feature\n--target-branch=main\n--title=feature\n"+
		"--description=0 tasks, 2 commits. Made with [docker ralph](https://github.com/docker-ralph/docker-ralph).")
}

// Neither the push nor the program of the forge runs what the repository names.
func TestPullRequestRunsNoProgramOfTheRepository(t *testing.T) {
	u := newUser(t, "git@gitlab.com:acme/shop.git")
	u.program("glab", recorder)
	hacked := filepath.Join(u.dir, "hacked")
	touch := []byte("#!/bin/sh\ntouch " + hacked + "\n")
	for _, hook := range []string{".git/hooks/pre-push", "hooks/pre-push", "hooks/post-index-change"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(u.root, filepath.Dir(hook)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(u.root, hook), touch, 0o755))
	}
	u.git("config", "core.hooksPath", "hooks")
	u.git("config", "hook.mine.event", "pre-push")
	u.git("config", "hook.mine.command", "touch "+hacked)
	tip := u.commit("Add it")
	u.git("config", "core.fsmonitor", "touch "+hacked+"; false")
	_, err := os.Stat(hacked)
	assert.Assert(t, os.IsNotExist(err), "the user's git has not run it")
	assert.NilError(t, u.open(Options{}))
	assert.Equal(t, u.pushed(), tip+"\trefs/heads/feature")
	_, err = os.Stat(hacked)
	assert.Assert(t, os.IsNotExist(err))

	for _, setting := range [][2]string{
		{"core.sshCommand", "core.sshcommand"}, {"credential.https://gitlab.com.helper", "credential.helper"}, {"remote.origin.receivepack", "remote.receivepack"},
	} {
		u.git("config", setting[0], "touch "+hacked)
		u.git("commit", "-q", "--allow-empty", "-m", "more", "--no-verify")
		_ = os.Remove(hacked)
		err := u.open(Options{})
		assert.Error(t, err, setting[1]+" in the configuration of this repository names a program for git push, which docker ralph does not run")
		_, err = os.Stat(hacked)
		assert.Assert(t, os.IsNotExist(err))
		u.git("config", "--unset", setting[0])
	}
	included := filepath.Join(t.TempDir(), "included")
	u.git("config", "--file", included, "core.sshCommand", "touch "+hacked)
	u.git("config", "include.path", included)
	assert.ErrorContains(t, u.open(Options{}), "core.sshcommand in the configuration of this repository names a program")
	u.git("config", "--unset", "include.path")

	// The user pushes.
	u.git("config", "core.sshCommand", "false")
	u.git("update-ref", "refs/remotes/origin/feature", "feature")
	assert.NilError(t, u.open(Options{}))
}

func TestPullRequestIsRefused(t *testing.T) {
	u := newUser(t, "git@github.com:acme/shop.git")
	assert.Error(t, u.open(Options{}), "feature has no commits that main of origin lacks")
	u.commit("Add it")
	assert.Error(t, u.open(Options{Base: "feature"}), "feature is the branch to merge into")
	assert.Error(t, u.open(Options{Base: "next"}), "origin has no branch next that is known here")

	record, err := u.host.NewRecord(host.Record{
		ID: "x", Command: []string{"ralph", "build"}, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "feature"}, Root: u.root, Sandbox: "ralph-acme-shop-feature",
	})
	assert.NilError(t, err)
	assert.Error(t, u.open(Options{}), "a loop is working on your branch feature")
	record.Done(nil)

	u.git("switch", "-q", "main")
	u.git("commit", "-q", "--allow-empty", "-m", "more")
	assert.Error(t, u.open(Options{}), "main is the branch to merge into")
	u.git("switch", "-q", "feature")
	u.git("remote", "set-url", "origin", u.dir+"/origin.git")
	assert.Error(t, u.open(Options{}), `the git remote "origin" is not a repository on a git host`)
	assert.Equal(t, u.pushed(), "")
}
