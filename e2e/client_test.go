//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/disk"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// Clients: Docker configurations that share an engine.

// withAnotherConfig is the same user with another folder for Docker's configuration.
func (w *world) withAnotherConfig(t *testing.T) *world {
	t.Helper()
	other := *w
	other.config = filepath.Join(w.dir, "docker2")
	settings, err := os.ReadFile(filepath.Join(w.config, "ralph", "config.toml"))
	assert.NilError(t, err)
	w.write(t, filepath.Join(other.config, "ralph", "config.toml"), string(settings))
	assert.NilError(t, os.MkdirAll(filepath.Join(other.config, "cli-plugins"), 0o755))
	assert.NilError(t, os.Symlink(shared.plugin, filepath.Join(other.config, "cli-plugins", "docker-ralph")))
	w.chown(t, other.config)
	other.env = append(append([]string{}, w.env...), "DOCKER_CONFIG="+other.config)
	return &other
}

// objects are the names of what the sandboxes of the world have on the engine, and its cache volume.
func (w *world) objects(t *testing.T) []string {
	t.Helper()
	all := w.volumes(t)
	for _, c := range slices.Concat(w.containers(t), w.helperContainers(t)) {
		all = append(all, strings.Join(c.Names, " "), c.ID, string(c.State))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Commands with the same worktree, but another Docker configuration, leave a sandbox alone, and say so.
func TestSandboxOfAnotherClientIsNotUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		name, before := w.sandbox(t).Name, w.objects(t)
		other := w.withAnotherConfig(t)
		of := "sandbox " + name + " belongs to another client, "
		for _, args := range [][]string{
			{"shell", "--", "true"},
			{"build"},
			{"--recreate", "shell", "--", "true"},
			{"--dry-run", "build"},
			{"stop"},
			{"stop", "--now", name},
			{"repair"},
			{"diff"},
			{"logs", name},
			{"network", "ls"},
			{"clean", "--force"},
			{"clean", "--force", "--discard-commits"},
			{"clean", "--force", name},
		} {
			res := other.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, of), "%q", args)
			assert.Check(t, is.Contains(res.stderr, `run "docker ralph clean --discard-commits `+name+`"`), "%q", args)
			assert.DeepEqual(t, w.objects(t), before)
		}

		assert.Check(t, is.Contains(other.ok(t, "status"), "Sandbox    "+name+": running (container, shell), of another client, "))
		assert.Check(t, is.Contains(other.ok(t, "ls"), "of another client, "))
		var listed []manage.SandboxStatus
		assert.NilError(t, json.Unmarshal([]byte(other.ok(t, "ls", "--format", "json")), &listed))
		assert.Assert(t, is.Len(listed, 1))
		assert.Check(t, listed[0].OtherClient != "")
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "ls", "--format", "json")), &listed))
		assert.Check(t, is.Equal(listed[0].OtherClient, ""))
		theirs := slices.DeleteFunc(other.diskItems(t), func(i disk.Item) bool {
			return i.OtherClient == "" || !strings.Contains(i.Name, strings.TrimPrefix(name, "ralph-"))
		})
		assert.Check(t, len(theirs) > 3, "%v", theirs)
		for _, item := range theirs {
			assert.Check(t, !item.Reclaimable && strings.HasPrefix(item.Reason, "it belongs to another client, "), "%+v", item)
		}

		res := other.ralph(t, "clean", "--all", "--force").expect(t, 0)
		for _, kept := range []string{"sandbox " + name, "volume ralph-git-" + name, "volume " + container.CacheVolume(w.repo)} {
			assert.Check(t, is.Contains(res.stderr, kept))
		}
		assert.Check(t, is.Contains(res.stderr, "Keeping what belongs to other clients: "))
		assert.DeepEqual(t, w.objects(t), before)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
		assert.DeepEqual(t, w.objects(t), before)

		// Its Docker configuration is lost: it is in the way until it is removed by name.
		removed := other.ralph(t, "clean", "--force", "--discard-commits", name).expect(t, 0)
		assert.Equal(t, removed.stdout, "sandbox "+name+"\n")
		assert.Assert(t, is.Len(w.containers(t), 0))
		assert.Assert(t, is.Len(w.helperContainers(t), 0))
		assert.Assert(t, is.Len(w.sandboxVolumes(t), 0))
		other.createSandbox(t)
		assert.Check(t, is.Contains(w.ralph(t, "shell", "--", "true").expect(t, 1).stderr, of))

		// Each has its own backlog.
		other.ok(t, "task", "create", "b", "Title")
		assert.DeepEqual(t, other.statuses(t), map[string]string{"b": "open"})
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// Of two clients at once, one gets the sandbox, which works, and the other one an error.
func TestClientsAtOnceGetOneSandbox(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		other := w.withAnotherConfig(t)
		first := start(t, w.docker("ralph", "shell", "--", "echo", "a"))
		second := start(t, other.docker("ralph", "shell", "--", "echo", "b"))
		results := []result{first.wait(t), second.wait(t)}
		assert.Equal(t, results[0].code+results[1].code, 1, "%v", results)
		winner, loser := w, results[1]
		if results[0].code != 0 {
			winner, loser = other, results[0]
		}
		assert.Check(t, is.Contains(loser.stderr, "belongs to another client, "))
		winner.createSandbox(t)
		assert.Equal(t, len(w.containers(t)), 1)
	})
}
