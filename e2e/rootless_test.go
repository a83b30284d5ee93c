//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// An engine without rights of its own does all that others do, but for limits
// where it has no cgroups. Root inside is the user outside there.
func TestARootlessEngine(t *testing.T) {
	t.Parallel()
	if len(engines.List()) < 2 {
		notHere(t, "the rootless engine is the current one, which takes minutes to compile: see \"make test ENGINES=all\"")
	}
	w := newWorld(t, startEngine(t, "rootless"))
	w.byDefault()
	w.setenv("RALPH_ALLOW", "near.invalid")
	w.plan(t,
		task{ID: "a", Title: "Work", Steps: []string{"id -u >who; echo made >made; touch /usr/mine 2>root; true"}},
		task{ID: "b", Title: "Reach out", Steps: []string{reach("far.invalid", "far"), reach("near.invalid", "near")}},
	)
	res := w.ralph(t, "build", "-n", "2").expect(t, 0)
	assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s", "HEAD~2.."), "Work\nReach out")
	assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	w.ownsEverything(t)
	assert.Equal(t, w.read(t, "who"), "0\n")
	assert.Check(t, is.Contains(w.read(t, "root"), "Read-only file system"))
	assert.Check(t, is.Contains(w.read(t, "far"), refusedByProxy))
	assert.Check(t, is.Contains(w.read(t, "near"), lostBehind))
	assert.Check(t, is.Contains(res.stderr, "blocked: far.invalid:443 ×1"))

	// Whether it works has to be known before it is made anew.
	id := w.container(t).ID
	anew := w.ralph(t, "--recreate", "task", "list").expect(t, 0)
	assert.Check(t, w.container(t).ID != id)
	info, err := w.engine.Client(t).Info(t.Context(), client.InfoOptions{})
	assert.NilError(t, err)
	limited := info.Info.CgroupVersion != "1" && info.Info.CgroupDriver != "none"
	assert.Equal(t, strings.Contains(anew.stderr, "Warning: this rootless engine cannot limit memory"), !limited)
	w.plan(t, slowTask())
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	appears(t, filepath.Join(w.repo, "begun"))
	refused := w.ralph(t, "--recreate", "task", "list").expect(t, 1)
	assert.Check(t, is.Contains(refused.stderr, "a command is running in it"))
	w.write(t, filepath.Join(w.repo, "go"), "")
	build.wait(t).expect(t, 0)

	checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), 0)
	assert.Equal(t, summary(checks), allWell)
}
