//go:build unix

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// "stop" and "clean", and sandboxes whose worktree was removed.

func TestStopLetsTheLoopFinishItsTask(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		next := slowTask()
		next.ID = "untouched"
		first := slowTask()
		first.Priority, next.Priority = 1, 2
		w.plan(t, first, next)
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		stop := start(t, w.docker("ralph", "stop"))
		stop.stderr.WaitFor(t, `Asked "build" in `+w.sandbox(t).Name+" to stop after ")
		build.stdout.WaitFor(t, "Stop requested: the loop ends after this run.")
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
		res := stop.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `"build" has ended: stopped (exit code 0)`))
		assert.Check(t, is.Contains(res.stderr, "Stopped sandbox "+w.sandbox(t).Name))
		assert.Assert(t, !w.sandbox(t).Running)
		_, err := os.Stat(w.pathInside(t, "signals"))
		assert.Assert(t, os.IsNotExist(err), "the agent was not disturbed")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done", "untouched": "open"})
	})
}

func TestStopNowEndsALoopWhoseCommandWasKilled(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		res := w.ralph(t, "stop", "--now").expect(t, 0)
		sb := w.sandbox(t)
		assert.Check(t, is.Contains(res.stderr, `Ending "build" in `+sb.Name))
		assert.Check(t, is.Contains(res.stderr, "Stopped sandbox "+sb.Name))
		assert.Assert(t, !sb.Running)
		w.write(t, w.pathInside(t, "go"), "")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "open"})
	})
}

func TestStopWithoutALoop(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "stop").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "Nothing to stop: this worktree and branch have no sandbox\n"))
		w.createSandbox(t)
		name := w.sandbox(t).Name
		res = w.ralph(t, "stop", name).expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "Nothing runs in "+name+"\nStopped sandbox "+name+"\n"))
		assert.Assert(t, !w.sandbox(t).Running)
		res = w.ralph(t, "stop").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, "Nothing runs in "+name+": it is stopped\n"))
		res = w.ralph(t, "stop", "ralph-nobody").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `no sandbox "ralph-nobody"`))
	})
}

// Commits of a loop whose command was killed are fetched when it is ended.
func TestStopNowFetchesCommits(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm b; touch committed; sleep 1000"}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		w.ralph(t, "stop", "--now").expect(t, 0)
		assert.Assert(t, !w.sandbox(t).Running)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first")
		assert.Equal(t, w.git(t, "log", "-2", "--format=%s", w.sandboxRef(t, "attempts/b/1")), "Uncommitted changes of task b\nb")
	})
}

func TestCleanRemovesOnlyTheSandbox(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		other := w.linkedWorktree(t, "other")
		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		other.createSandbox(t)
		w.write(t, filepath.Join(w.repo, "mine"), "x")
		assert.Equal(t, len(w.sandboxes(t)), 2)
		res := w.ralph(t, "clean").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "preview with --dry-run, or pass --force"))
		name := w.listed(t)[0].Name
		if !w.listed(t)[0].Current {
			name = w.listed(t)[1].Name
		}
		assert.Equal(t, w.ok(t, "clean", "--dry-run"), "sandbox "+name+"\n")
		assert.Equal(t, len(w.sandboxes(t)), 2)

		assert.Equal(t, w.ok(t, "clean", "--force"), "sandbox "+name+"\n")
		assert.Equal(t, len(w.sandboxes(t)), 1)
		assert.Equal(t, w.read(t, "mine"), "x")
		res = w.ralph(t, "reset", "--force").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "No sandbox of this worktree and branch to remove"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// The confirmations of clean at a terminal.
const askWhich, askSure = "Your choice (1 or 2):", "Remove them? [y/N]"

func TestCleanConfirmsEachSandbox(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		other := w.linkedWorktree(t, "other")
		w.createSandbox(t)
		other.createSandbox(t)
		nothing := w.dialogue(t, "clean", askWhich, "").expect(t, 1)
		w.assertScreen(t, nothing.stdout, "clean-nothing")
		w.dialogue(t, "clean", askWhich, "2", askSure, "n").expect(t, 1)
		w.dialogue(t, "clean --all", askSure, "").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 2)
		res := w.dialogue(t, "clean", askWhich, "1").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "1) this worktree and branch: ralph-e2e-"))
		w.assertScreen(t, res.stdout, "clean-one")
		assert.Equal(t, len(w.sandboxes(t)), 1)
		assert.Assert(t, !w.listed(t)[0].Current)
		w.createSandbox(t)
		res = w.dialogue(t, "clean", askWhich, "2", askSure, "y").expect(t, 0)
		w.assertScreen(t, res.stdout, "clean-all")
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

func TestCleanKeepsASandboxInUse(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		res := w.ralph(t, "clean", "--force").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "another command is using it"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		res = w.ralph(t, "clean", "--force").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "a command is still running in it"))
		assert.Assert(t, w.sandbox(t).Running)
		w.write(t, w.pathInside(t, "go"), "")
		w.ralph(t, "attach") // the loop may have ended before
		w.waitForIdle(t)
		w.ralph(t, "clean", "--force").expect(t, 0)
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

// A clean-up leaves neither containers, nor networks, nor volumes of the
// repository, and loses no commit: not even one that was never fetched, nor one of a
// removed worktree.
func TestCleanAllFetchesCommits(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		lost, done := w.linkedWorktree(t, "lost"), w.linkedWorktree(t, "done")
		unfetched := task{ID: "b", Title: "Commit and hang", Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm b; touch committed; sleep 1000"}}
		for _, tree := range []*world{w, lost} {
			tree.plan(t, unfetched)
			build := start(t, tree.docker("ralph", "build", "-n", "1"))
			waitForFile(t, tree.pathInside(t, "committed"))
			build.signalGroup(syscall.SIGKILL)
			build.wait(t)
		}
		done.plan(t, task{ID: "c", Title: "Add c", Steps: []string{"echo c > c.txt"}})
		done.ralph(t, "build").expect(t, 0)
		var name string
		for _, c := range w.containers(t) {
			if c.Labels[labelPrefix+"scope.branch"] == "lost" {
				name = c.Names[0][1:]
			}
			run(t, w.docker("stop", "-t", "0", c.ID)).expect(t, 0)
		}
		assert.NilError(t, os.RemoveAll(lost.repo))
		assert.NilError(t, os.RemoveAll(done.repo))
		cache := container.CacheVolume(w.repo)
		run(t, w.docker("volume", "create", "--label", labelPrefix+"created-by=docker-ralph", cache)).expect(t, 0)
		t.Cleanup(func() { run(t, w.docker("volume", "rm", "-f", cache)) })

		assert.Check(t, is.Contains(w.ok(t, "ls"), lost.repo+" (gone)"))
		var kept string // whose container is removed by hand
		for _, c := range w.containers(t) {
			if c.Labels[labelPrefix+"scope.branch"] == "main" {
				kept = c.Names[0][1:]
				run(t, w.docker("rm", "-fv", c.ID)).expect(t, 0)
			}
		}

		res := w.ralph(t, "clean", "--all", "--force").expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "lost"), "first")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "refs/ralph/"+name+"/lost"), "b")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "done"), "Add c")
		for _, branch := range []string{"lost", "done"} {
			w.assertRemoved(t, branch)
		}
		assert.Check(t, is.Contains(res.stderr, "volume ralph-git-"+kept))
		assert.Check(t, is.Contains(res.stdout, "volume "+cache+"\n"))
		api := w.engine.Client(t)
		_, err := api.VolumeInspect(context.WithoutCancel(t.Context()), cache, client.VolumeInspectOptions{})
		assert.ErrorContains(t, err, "no such volume")
		left := w.volumes(t)
		slices.Sort(left)
		assert.DeepEqual(t, left, []string{"ralph-clone-" + kept, "ralph-git-" + kept})
	})
}

// A repository that was deleted is cleaned up after from where it was, or by the
// sandbox's name.
func TestCleanWithoutTheRepository(t *testing.T) {
	remove := func(t *testing.T, w *world, args ...string) {
		t.Helper()
		args = append([]string{"clean", "--force"}, args...)
		if w.hasClone() {
			res := w.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "it may have the only copy of its commits"))
			args = append(args, "--discard-commits")
		}
		w.ok(t, args...)
		assert.Equal(t, len(w.sandboxes(t)), 0)
	}
	onDrivers(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		name := w.sandbox(t).Name
		assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, ".git")))
		assert.Check(t, is.Contains(w.ok(t, "ls"), name+" (current)"))
		remove(t, w)

		w.git(t, "init", "-q")
		w.git(t, "remote", "add", "origin", "https://git.example/"+w.slug+".git")
		w.git(t, "commit", "-q", "--allow-empty", "-m", "first")
		w.createSandbox(t)
		outside := *w
		outside.repo = w.home
		assert.NilError(t, os.RemoveAll(w.repo))
		remove(t, &outside, name)
	})
}

// assertRemoved asserts that nothing is left of what stood around the
// sandbox of a branch.
func (w *world) assertRemoved(t *testing.T, branch string) {
	t.Helper()
	name, err := gitrepo.Scope{Repo: w.slug, Branch: branch}.SandboxName()
	assert.NilError(t, err)
	ctx, api := t.Context(), w.engine.Client(t)
	its := make(client.Filters).Add("label", labelPrefix+"sandbox="+name)
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: its})
	assert.NilError(t, err)
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: its})
	assert.NilError(t, err)
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: its})
	assert.NilError(t, err)
	assert.Equal(t, len(containers.Items)+len(networks.Items)+len(volumes.Items), 0, name)
}

// A program that has lost its engine lists nothing: what it had is unknown, and
// nothing is removed.
func TestCleanKeepsAMicroVMInUnknownState(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		name := w.sandbox(t).Name
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.EmptyList = true })
		assert.Equal(t, w.listed(t)[0].State, "unknown")
		res := w.ralph(t, "clean", "--force").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "keeping sandbox "+name+": its state is unknown"))
		res = w.ralph(t, "stop").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: sandbox "+name+" is unknown\nHint: repair it with"))
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.EmptyList = false })
		assert.Equal(t, w.listed(t)[0].State, "running")
		w.ok(t, "clean", "--force")
	})
}

// linkedWorktree is the world in another worktree of its repository, on a new branch.
func (w *world) linkedWorktree(t *testing.T, branch string) *world {
	t.Helper()
	other := *w
	other.env = slices.Clone(w.env)
	other.repo = filepath.Join(w.dir, "src", branch)
	w.git(t, "worktree", "add", "-q", "-b", branch, other.repo)
	return &other
}

// branches are those that have a sandbox, in no order.
func (w *world) branches(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, c := range w.containers(t) {
		all[c.Labels[labelPrefix+"scope.branch"]] = true
	}
	return all
}

// The sandbox of a removed worktree is removed when the next one is created, but not
// if it has the only copy of commits.
func TestSandboxesOfRemovedWorktreesArePruned(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		done, half, open := w.linkedWorktree(t, "done"), w.linkedWorktree(t, "half"), w.linkedWorktree(t, "open")
		moved := w.linkedWorktree(t, "moved")
		moved.ok(t, "shell", "--", "true")
		w.git(t, "worktree", "move", moved.repo, moved.repo+"-away")
		open.setenv("RALPH_WORKSPACE", "live")
		done.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt"}})
		done.ralph(t, "build").expect(t, 0)
		open.createSandbox(t)
		half.plan(t, task{ID: "b", Title: "Commit and hang", Steps: []string{"echo b > b.txt; git add b.txt; git commit -qm b; touch committed; sleep 1000"}})
		build := start(t, half.docker("ralph", "build", "-n", "1"))
		waitForFile(t, half.pathInside(t, "committed"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		for _, tree := range []*world{done, half, open} {
			assert.NilError(t, os.RemoveAll(tree.repo))
		}
		for _, c := range w.containers(t) { // what was killed on the host has left its loop at work
			run(t, w.docker("stop", "-t", "0", c.ID)).expect(t, 0)
		}

		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "worktree "+done.repo+" does not exist"))
		assert.Check(t, is.Contains(res.stderr, "worktree "+open.repo+" does not exist"))
		assert.Check(t, is.Contains(res.stderr, half.repo+" does not exist: it may have the only copy of its commits"))
		assert.DeepEqual(t, w.branches(t), map[string]bool{"main": true, "half": true, "moved": true})
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "done"), "Add a")
	})
}

// A loop whose sandbox was killed or paused has ended when the stop returns.
func TestStopEndsALoopThatWouldRestart(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		w.createSandbox(t)
		name := w.sandbox(t).Name
		for _, how := range []string{"kill", "pause"} {
			w.ralph(t, "--detach", "build").expect(t, 0)
			waitForFile(t, w.pathInside(t, "begun"))
			eventually(t, func() error { // runc may fail to freeze the processes of a busy machine
				if res := run(t, w.docker(how, name)); res.code != 0 {
					return errors.New(res.stderr)
				}
				return nil
			})
			assert.NilError(t, os.Remove(w.pathInside(t, "begun")))
			w.ralph(t, "stop", "--now").expect(t, 0)
			assert.Check(t, !w.container(t).State.Running)
			assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "open"})
		}
	})
}
