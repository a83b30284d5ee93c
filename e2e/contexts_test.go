//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// A sandbox stays on its engine when the context changes, until --move moves it with its
// commits and backlog.
func TestSandboxStaysOnItsEngineUntilItIsMoved(t *testing.T) {
	t.Parallel()
	all := engines.Need(t)
	if len(all) < 2 {
		skipOrFail(t, "it needs two engines: \"make test ENGINES=all\"")
	}
	w := newWorld(t, all[0])
	w.setenv("DOCKER_HOST", "")
	w.useClone()
	other := *w
	other.engine = all[1]
	t.Cleanup(func() { other.removeContainers(t) })
	for name, e := range map[string]engines.Engine{"one": all[0], "two": all[1]} {
		run(t, w.docker("context", "create", name, "--docker", "host="+e.Host)).expect(t, 0)
	}
	use := func(name string) { run(t, w.docker("context", "use", name)).expect(t, 0) }
	ralph := func(args ...string) result {
		return w.ralph(t, append([]string{"--image", engines.BaseImage()}, args...)...)
	}
	commit := func(file string) {
		ralph("shell", "--", "sh", "-c", "echo >"+file+" && git add "+file+" && git commit -qm "+file).expect(t, 0)
	}

	use("one")
	ralph("task", "create", "t1", "Stays").expect(t, 0)
	commit("a")
	use("two")
	commit("b")
	assert.Equal(t, len(w.containers(t)), 1)
	assert.Equal(t, len(other.containers(t)), 0)
	name := w.containers(t)[0].Names[0][1:]
	assert.Assert(t, is.Contains(ralph("ls", "--format", "{{.Name}} {{.Engine}}").expect(t, 0).stdout, name+" one"))

	refused := run(t, w.docker("--context", "two", "ralph", "task", "list")).expect(t, 1)
	assert.Assert(t, is.Contains(refused.stderr, "the sandbox "+name+" is on the engine one\nHint: run \"docker --context one ralph ...\", or move it with --move"))

	moved := ralph("--move", "task", "list").expect(t, 0)
	assert.Check(t, is.Contains(moved.stdout, "Stays"))
	assert.Assert(t, is.Contains(moved.stderr, "Moving the sandbox "+name+" from the engine one to two"))
	assert.Equal(t, len(w.containers(t)), 0)
	assert.Equal(t, len(other.containers(t)), 1)
	use("one")
	commit("c")
	assert.Equal(t, len(w.containers(t)), 0)
	assert.Equal(t, strings.Join(strings.Fields(w.git(t, "log", "--format=%s")), " "), "c b a first")

	ralph("clean", "--force", name).expect(t, 0)
	assert.Equal(t, len(other.containers(t)), 0)
	ralph("task", "list").expect(t, 0) // on the selected engine again
	assert.Equal(t, len(w.containers(t)), 1)
}
