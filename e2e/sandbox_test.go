//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Sandboxes: creating, sharing, recreating, stopping, and one-time sandboxes.

const (
	initialLimits = "[sandbox.resources]\nmemory = \"512m\"\ncpus = 1.5\npids = 300\n"
	otherLimits   = "[sandbox.resources]\nmemory = \"640m\"\ncpus = \"1\"\npids = 200\n"
)

// configure writes the repository's ralph.toml.
func (w *world) configure(t *testing.T, toml string) {
	t.Helper()
	w.write(t, filepath.Join(w.repo, "ralph.toml"), toml)
}

func TestRecreateIsConfirmedAtATerminal(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Title", Steps: []string{"true"}})
		w.createSandbox(t)
		first := w.sandbox(t)
		command := []string{"ralph", "--image", engines.BaseImage(), "build"}

		no := w.terminal(t, w.docker(command...))
		no.screen.WaitFor(t, "Recreate it?")
		no.press(t, "n\r")
		w.assertScreen(t, no.wait(t).expect(t, 1).stdout, "recreate-no")
		assert.Check(t, is.Contains(no.screen.String(), "Error: canceled: sandbox "))
		assert.Equal(t, w.sandbox(t).ID, first.ID)

		yes := w.terminal(t, w.docker(command...))
		yes.screen.WaitFor(t, "Recreate it?")
		yes.press(t, "y\r")
		w.assertScreen(t, yes.wait(t).expect(t, 0).stdout, "recreate-yes")
		assert.Check(t, is.Contains(yes.screen.String(), "Title"))
		assert.Assert(t, w.sandbox(t).ID != first.ID)
	})
}

// A running command prevents that its sandbox is recreated.
func TestSandboxInUseIsNotRecreated(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "slow", Title: "Wait", Steps: []string{"touch begun; while ! test -e go; do sleep 0.05; done"}})
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		id := w.sandbox(t).ID

		res := w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 1)

		assert.Equal(t, w.sandbox(t).ID, id)
		assert.Check(t, is.Contains(res.stderr, "a command is running in it"))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	})
}

func TestOneTimeSandboxIsRemoved(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox]\nreuse_container = false\n")
		w.ok(t, "task", "create", "a", "Add a", "-s", `["echo a > a"]`)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		w.ok(t, "build")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		w.ralph(t, "task", "show", "nothing").expect(t, 2)

		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Equal(t, len(w.sandboxVolumes(t)), 0)
	})
}

// The one-time sandboxes of interrupted and killed commands are removed too, but not
// while the loop still runs.
func TestInterruptedOneTimeSandboxIsRemoved(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		build.signalGroup(syscall.SIGTERM)
		build.wait(t).expect(t, 130)
		assert.Equal(t, len(w.sandboxes(t)), 0)

		assert.NilError(t, os.RemoveAll(w.pathInside(t, "begun")))
		build = start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "active"})
		w.ok(t, "shell", "--", "true") // in one of its own
		assert.Equal(t, len(w.sandboxes(t)), 1, "it is at work")

		w.write(t, w.pathInside(t, "go"), "")
		w.ralph(t, "attach") // the loop may have ended before
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
		eventually(t, func() error {
			w.ok(t, "shell", "--", "true")
			if n := len(w.sandboxes(t)); n > 0 {
				return fmt.Errorf("%d sandboxes are left", n)
			}
			return nil
		})
	})
}

// A stopped sandbox is started, a removed one recreated; both keep the backlog.
func TestStoppedOrRemovedSandboxIsStartedOrRecreated(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.useDefaults()
		w.createUnrelatedMicroVM(t)
		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		first, tasks := w.sandbox(t), map[string]string{"a": "open"}
		w.stop(t, first)
		assert.DeepEqual(t, w.statuses(t), tasks)
		assert.Check(t, !w.sandbox(t).Running, "the backlog is not in the sandbox")
		w.createSandbox(t)
		assert.Equal(t, w.sandbox(t).ID, first.ID)

		w.remove(t, first)
		assert.DeepEqual(t, w.statuses(t), tasks)
		w.createSandbox(t)
		assert.DeepEqual(t, w.statuses(t), tasks)
		assert.Assert(t, w.sandbox(t).ID != first.ID)
	})
}

// read returns a file of the worktree.
func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.repo, name))
	assert.NilError(t, err)
	return string(content)
}

func TestConcurrentCommandsShareASandbox(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		const n = 5
		var all []*process
		for i := range n {
			id := fmt.Sprint("t", i)
			all = append(all, start(t, w.docker("ralph", "shell", "--", "sh", "-c", "ralph task create "+id+" Title")))
		}
		for i, p := range all {
			assert.Equal(t, p.wait(t).expect(t, 0).stdout, fmt.Sprintf("t%d\n", i))
		}
		assert.Equal(t, len(w.sandboxes(t)), 1)
		assert.Equal(t, len(w.statuses(t)), n)
	})
}

// A sandbox sees one worktree. A second clone has its own sandbox.
func TestSecondCloneHasItsOwnBacklog(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		made := w.sandbox(t)

		clone := *w
		clone.repo = filepath.Join(w.dir, "clone")
		w.git(t, "clone", "-q", w.repo, clone.repo)
		clone.git(t, "remote", "set-url", "origin", "https://git.example/"+w.slug+".git")
		clone.ok(t, "task", "create", "b", "Title")
		clone.createSandbox(t)
		assert.Equal(t, len(w.sandboxes(t)), 2)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.DeepEqual(t, clone.statuses(t), map[string]string{"b": "open"})

		// It keeps its own when the first one's is removed, which had the plain name.
		w.ok(t, "clean", "--force")
		assert.DeepEqual(t, clone.statuses(t), map[string]string{"b": "open"})
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.Check(t, w.sandbox(t).ID != made.ID)
	})
}

// Different scopes can map to the same sandbox name.
func TestBranchesWithSimilarNamesShareNothing(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		slash, dash := *w, *w
		slash.env = append(append([]string{}, w.env...), "RALPH_SCOPE_BRANCH=feature/x")
		dash.env = append(append([]string{}, w.env...), "RALPH_SCOPE_BRANCH=feature-x")

		slash.ok(t, "task", "create", "a", "Title")
		dash.ok(t, "task", "create", "b", "Title")
		slash.createSandbox(t)
		dash.createSandbox(t)

		assert.Equal(t, len(w.sandboxes(t)), 2)
		assert.DeepEqual(t, slash.statuses(t), map[string]string{"a": "open"})
		assert.DeepEqual(t, dash.statuses(t), map[string]string{"b": "open"})
		// --recreate does not affect the other.
		dash.createSandbox(t, "--recreate")
		assert.Equal(t, len(w.sandboxes(t)), 2)
		assert.DeepEqual(t, slash.statuses(t), map[string]string{"a": "open"})
	})
}

func TestScopeFromTheEnvironment(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		other := *w
		id := filepath.Base(w.slug)
		other.slug = "e2e/Über." + id
		other.env = append(append([]string{}, w.env...), "RALPH_SCOPE_REPO="+other.slug, "RALPH_SCOPE_BRANCH=feature/auth//v2-", "RALPH_WORKSPACE=live")
		t.Cleanup(func() { other.removeSandboxes(t) })
		w.git(t, "checkout", "-q", "--detach")
		w.git(t, "remote", "remove", "origin")

		other.ok(t, "task", "create", "a", "Title")
		other.createSandbox(t)

		assert.Equal(t, other.sandbox(t).Name, "ralph-e2e-ber-"+id+"-feature-auth-v2")
		assert.Equal(t, len(w.sandboxes(t)), 0)
		// Inside it is the same scope.
		const scope = "ralph task _get-scope; ralph task plan-status"
		assert.Equal(t, other.ok(t, "shell", "--", "sh", "-c", scope), "repo:"+other.slug+"\nbranch:feature/auth//v2-\n1 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
	})
}

// A linked worktree has its own branch, so its own sandbox.
func TestLinkedWorktreeHasItsOwnSandbox(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "main/1", Title: "In the main work tree", Steps: []string{"echo m > main"}})
		linked := *w
		linked.repo = filepath.Join(w.dir, "linked")
		w.git(t, "worktree", "add", "-q", "-b", "other", linked.repo)
		linked.plan(t, task{ID: "linked/1", Title: "In the linked one", Steps: []string{"echo l > linked"}})
		w.createSandbox(t)

		linked.ok(t, "build")

		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "other"), "In the linked one")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", "main"), "first")
		assert.Equal(t, linked.git(t, "status", "--porcelain"), "")
		linked.assertOwnership(t)
		w.assertOwnership(t)
		assert.DeepEqual(t, linked.statuses(t), map[string]string{"linked/1": "done"})
		assert.DeepEqual(t, w.statuses(t), map[string]string{"main/1": "open"})
		assert.Equal(t, len(w.sandboxes(t)), 2)
	})
}

// A container of that name that docker-ralph did not create is not used.
func TestForeignContainerIsNotUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		name := "ralph-" + filepath.Dir(w.slug) + "-" + filepath.Base(w.slug) + "-main"
		foreign := w.foreignContainer(t, name)
		for _, args := range [][]string{{"shell", "--", "true"}, {"--recreate", "shell", "--", "true"}} {
			res := w.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "Error: the name "+name+" is in use by a container that docker-ralph did not create"))
		}
		assert.Equal(t, run(t, w.docker("inspect", "--format", "{{.Id}}", name)).expect(t, 0).stdout, foreign)
	})
}

// foreignContainer makes a container of that name and returns its ID and a
// newline.
func (w *world) foreignContainer(t *testing.T, name string) string {
	t.Helper()
	made := run(t, w.docker("create", "--name", name, "--label", labelPrefix+"scope.repo="+w.slug, engines.BaseImage(), "true")).expect(t, 0).stdout
	t.Cleanup(func() { run(t, w.docker("rm", "-f", name)) })
	return made
}
