//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

const (
	halfGigabyte = "[sandbox.resources]\nmemory = \"512m\"\ncpus = 1.5\npids = 300\n"
	otherLimits  = "[sandbox.resources]\nmemory = \"640m\"\ncpus = \"1\"\npids = 200\n"
)

// configure writes the repository's ralph.toml.
func (w *world) configure(t *testing.T, toml string) {
	t.Helper()
	w.write(t, filepath.Join(w.repo, "ralph.toml"), toml)
}

func TestLimitsReachTheSandboxAndChangesNeedAWord(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.configure(t, halfGigabyte)
		w.ok(t, "task", "create", "a", "Title")
		first := w.container(t)
		assert.Equal(t, first.HostConfig.Memory, int64(512<<20))
		assert.Equal(t, first.HostConfig.MemorySwap, int64(512<<20), "no swap")
		assert.Equal(t, first.HostConfig.NanoCPUs, int64(15e8))
		assert.Equal(t, *first.HostConfig.PidsLimit, int64(300))

		// Nobody can be asked in a script.
		w.configure(t, otherLimits)
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Equal(t, w.container(t).ID, first.ID)
		assert.Check(t, is.Equal(res.stdout, ""))
		assert.Check(t, is.Contains(res.stderr, "Error: the sandbox "+first.Name[1:]+" no longer matches the configuration"))
		assert.Check(t, is.Contains(res.stderr, "--recreate"))

		assert.DeepEqual(t, w.ralph(t, "--recreate", "task", "list").expect(t, 0).code, 0)
		second := w.container(t)
		assert.Assert(t, second.ID != first.ID)
		assert.Equal(t, second.HostConfig.Memory, int64(640<<20))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"}) // the work tree was not touched

		// Flags beat the file, and are as good a reason.
		w.ralph(t, "--memory", "700m", "task", "list").expect(t, 1)
		w.ok(t, "--memory", "700m", "--recreate", "task", "list")
		assert.Equal(t, w.container(t).HostConfig.Memory, int64(700<<20))
	})
}

// The backlog is the same whichever agent works on it.
func TestTheBacklogNeedsNoSandboxOfTheSameAgent(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.byDefault()
		w.ok(t, "--agent", "shell", "task", "create", "a", "Title")
		first := w.sandbox(t)
		list := w.ok(t, "--agent", "claude", "--image", "no-such-image:1", "task", "list")
		assert.Check(t, is.Contains(list, "Title"))
		assert.Equal(t, w.sandbox(t).ID, first.ID)
		w.ralph(t, "--agent", "claude", "--image", "no-such-image:1", "build").expect(t, 1)
		assert.Equal(t, w.sandbox(t).ID, first.ID)
	})
}

func TestAtATerminalTheUserIsAskedBeforeASandboxIsMadeAnew(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.configure(t, halfGigabyte)
		w.plan(t, task{ID: "a", Title: "Title", Steps: []string{"true"}})
		first := w.sandbox(t)
		command := []string{"ralph", "build"}
		if w.driver == config.DriverDockerSandbox {
			// It has no limits that could change.
			command = []string{"ralph", "--image", engines.BaseImage(), "build"}
		} else {
			w.configure(t, otherLimits)
		}

		no := w.terminal(t, w.docker(command...))
		no.screen.waitFor(t, "Recreate it?")
		no.press(t, "n\r")
		w.shows(t, no.wait(t).expect(t, 1).stdout, "recreate-no")
		assert.Check(t, is.Contains(no.screen.String(), "was not recreated"))
		assert.Equal(t, w.sandbox(t).ID, first.ID)

		yes := w.terminal(t, w.docker(command...))
		yes.screen.waitFor(t, "Recreate it?")
		yes.press(t, "y\r")
		w.shows(t, yes.wait(t).expect(t, 0).stdout, "recreate-yes")
		assert.Check(t, is.Contains(yes.screen.String(), "Title"))
		assert.Assert(t, w.sandbox(t).ID != first.ID)
	})
}

// A running dispatch wins over whoever wants another sandbox.
func TestASandboxAtWorkIsNotMadeAnew(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "slow", Title: "Wait", Steps: []string{"touch begun; while ! test -e go; do sleep 0.05; done"}})
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		id := w.sandbox(t).ID

		res := w.ralph(t, "--recreate", "task", "list").expect(t, 1)

		assert.Equal(t, w.sandbox(t).ID, id)
		assert.Check(t, is.Contains(res.stderr, "a command is running in it"))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	})
}

func TestWithoutReuseNothingIsLeftBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
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

// What interrupted and killed dispatches leave goes too, but never while it
// is at work.
func TestWithoutReuseInterruptedSandboxesAreRemoved(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		build.signalGroup(syscall.SIGTERM)
		build.wait(t).expect(t, 130)
		assert.Equal(t, len(w.sandboxes(t)), 0)

		assert.NilError(t, os.Remove(filepath.Join(w.repo, "begun")))
		build = start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "active"})
		assert.Equal(t, len(w.sandboxes(t)), 1, "it is at work")

		w.write(t, filepath.Join(w.repo, "go"), "")
		eventually(t, func() error {
			if status := w.statuses(t)["slow"]; status != "done" {
				return errors.New(status)
			}
			if n := len(w.sandboxes(t)); n > 0 {
				return fmt.Errorf("%d sandboxes are left", n)
			}
			return nil
		})
	})
}

// A stopped sandbox is started again, a removed one made again; both keep the
// backlog, which is in the work tree.
func TestSandboxesThatWereStoppedOrRemovedComeBack(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.byDefault()
		w.neighbour(t)
		w.ok(t, "task", "create", "a", "Title")
		first := w.sandbox(t)
		w.stop(t, first)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.Equal(t, w.sandbox(t).ID, first.ID)

		w.remove(t, first)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.Assert(t, w.sandbox(t).ID != first.ID)
	})
}

// read returns a file of the work tree.
func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.repo, name))
	assert.NilError(t, err)
	return string(content)
}
