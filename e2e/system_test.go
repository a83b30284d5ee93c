//go:build unix

package e2e

import (
	"crypto/rand"
	"encoding/hex"
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
)

// What a deleted repository left is listed and removed; what another repository has stays.
// Commits in a private git directory are only discarded on request.
func TestSystemPruneRemovesWhatADeletedRepositoryLeft(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		gone, lost := w.otherRepository(t, "gone"), w.otherRepository(t, "lost")
		gone.setenv("RALPH_WORKSPACE", "live")
		for _, repo := range []*world{w, gone, lost} {
			repo.ok(t, "task", "create", "a", "Title")
			repo.createSandbox(t)
		}
		old := w.oldHelperImage(t)
		for _, name := range []string{gone.sandbox(t).Name, lost.sandbox(t).Name} {
			run(t, w.docker("stop", "-t", "0", name)).expect(t, 0)
		}
		goneName, lostName, name := gone.sandbox(t).Name, lost.sandbox(t).Name, w.sandbox(t).Name
		assert.NilError(t, os.RemoveAll(gone.repo))
		assert.NilError(t, os.RemoveAll(lost.repo))
		before := w.ownItems(t, name)
		assert.Assert(t, len(before) > 4, "%v", before)

		items := w.diskItems(t)
		assert.Assert(t, find(items, "sandbox "+goneName).Reclaimable)
		assert.Equal(t, find(items, "volume "+container.CacheVolume(gone.repo)).Path, gone.repo)
		kept := find(items, "sandbox "+lostName)
		assert.Assert(t, !kept.Reclaimable && kept.Reason == "it may have the only copy of its commits", "%+v", kept)
		res := w.ralph(t, "system", "prune").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "preview with --dry-run, or pass --force"))
		want := []string{
			"sandbox " + goneName, "volume " + container.CacheVolume(gone.repo), "image " + old, "state " + goneName,
		}
		assertRemoves(t, w.ok(t, "system", "prune", "--dry-run"), want, name, lostName)
		assert.Assert(t, find(w.diskItems(t), "sandbox "+goneName) != nil)

		res = w.ralph(t, "system", "prune", "--force").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "keeping sandbox "+lostName+": "+lost.repo+" does not exist, and it may have the only copy of its commits\nHint: discard them with --discard-commits"))
		assertRemoves(t, res.stdout, want, name, lostName)
		items = w.diskItems(t)
		for _, what := range want {
			assert.Check(t, find(items, what) == nil, what)
		}
		assert.Assert(t, find(items, "volume ralph-git-"+lostName) != nil)

		res = w.ralph(t, "system", "prune", "--force", "--discard-commits").expect(t, 0)
		assertRemoves(t, res.stdout, []string{"sandbox " + lostName, "volume ralph-git-" + lostName, "state " + lostName}, name)
		gone.assertRemoved(t, "main")
		lost.assertRemoved(t, "main")
		assert.Equal(t, len(gone.volumes(t))+len(lost.volumes(t)), 0)

		assert.DeepEqual(t, w.ownItems(t, name), before)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// otherRepository is the world in another repository of the user.
func (w *world) otherRepository(t *testing.T, name string) *world {
	t.Helper()
	other := *w
	other.env = slices.Clone(w.env)
	other.repo, other.slug = filepath.Join(w.dir, "src", name), w.slug+"-"+name
	w.git(t, "clone", "-q", w.repo, other.repo)
	other.git(t, "remote", "set-url", "origin", "https://git.example/"+other.slug+".git")
	t.Cleanup(func() { other.removeContainers(t) })
	return &other
}

// oldHelperImage is an image of another version of ralph-egress.
func (w *world) oldHelperImage(t *testing.T) string {
	t.Helper()
	var version [6]byte
	_, _ = rand.Read(version[:])
	tag := "docker-ralph/egress:" + hex.EncodeToString(version[:])
	proxy := w.sandbox(t).Name + ".egress"
	run(t, w.docker("commit", proxy, tag)).expect(t, 0)
	t.Cleanup(func() { run(t, w.docker("rmi", "-f", tag)) })
	return tag
}

func (w *world) diskItems(t *testing.T) []disk.Item {
	t.Helper()
	var items []disk.Item
	assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "system", "df", "-v", "--format", "json")), &items))
	return items
}

// ownItems are the names of what belongs to the world's repository.
func (w *world) ownItems(t *testing.T, sandbox string) []string {
	t.Helper()
	var own []string
	for _, item := range w.diskItems(t) {
		if item.Path == w.repo || strings.HasSuffix(item.Name, sandbox) {
			assert.Check(t, !item.Reclaimable, "%+v", item)
			own = append(own, item.String())
		}
	}
	return own
}

func find(items []disk.Item, what string) *disk.Item {
	i := slices.IndexFunc(items, func(i disk.Item) bool { return i.String() == what })
	if i < 0 {
		return nil
	}
	return &items[i]
}

// assertRemoves asserts that a list of removed things has these, and nothing of some
// sandboxes.
func assertRemoves(t *testing.T, list string, want []string, kept ...string) {
	t.Helper()
	lines := strings.Split(list, "\n")
	for _, what := range want {
		assert.Check(t, slices.Contains(lines, what), "%s\nin:\n%s", what, list)
	}
	for _, line := range lines {
		for _, name := range kept {
			assert.Check(t, !strings.HasSuffix(line, name), line)
		}
	}
}
