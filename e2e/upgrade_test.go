//go:build unix

package e2e

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// A new version of the plugin brings its own ralph, into sandboxes that are
// there already and into new ones.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		newer, err := shared.newer()
		assert.NilError(t, err)
		for _, driver := range []string{config.DriverContainer, microVMOn(e)} {
			t.Run("the sandbox stays and gets the new ralph, "+driver, func(t *testing.T) {
				t.Parallel()
				upgradeSandbox(t, newWorldOf(t, e, driver), newer)
			})
		}
		t.Run("two users bring the same ralph at the same moment", func(t *testing.T) { installTwice(t, e, newer) })
	})
}

func upgradeSandbox(t *testing.T, w *world, newer string) {
	w.plan(t,
		task{ID: "1", Title: "Before", Priority: 1, Steps: []string{"ralph version >before"}},
		task{ID: "2", Title: "After", Priority: 2, Steps: []string{"ralph version >after"}},
		task{ID: "3", Title: "Back", Priority: 3, Steps: []string{"ralph version >back"}})
	w.ok(t, "build", "-n", "1")
	sandbox := w.sandbox(t)

	w.install(t, newer)
	w.ok(t, "build", "-n", "1")
	assert.Equal(t, w.read(t, "after"), "ralph "+newerVersion+"\n")
	assert.Assert(t, w.read(t, "before") != w.read(t, "after"))
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)

	// And back again.
	w.install(t, shared.plugin)
	w.ok(t, "build", "-n", "1")
	assert.Equal(t, w.read(t, "back"), w.read(t, "before"))
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)
}

func installTwice(t *testing.T, e engines.Engine, newer string) {
	one, two := newWorld(t, e), newWorld(t, e)
	one.install(t, newer)
	two.install(t, newer)
	one.ok(t, "task", "list")
	program := one.container(t).Config.Entrypoint[0] // /opt/ralph/VERSION/ralph
	one.removeSandboxes(t)
	run(t, one.docker("rmi", "docker-ralph/guest:"+filepath.Base(filepath.Dir(program)))).expect(t, 0)

	first := start(t, one.docker("ralph", "task", "create", "a", "Title"))
	second := start(t, two.docker("ralph", "task", "create", "b", "Title"))
	first.wait(t).expect(t, 0)
	second.wait(t).expect(t, 0)
}
