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
// commits. Its backlog and logs are on this machine.
func TestSandboxStaysOnItsEngineUntilItIsMoved(t *testing.T) {
	t.Parallel()
	here := enginesFor(t)[0]
	w := newWorld(t, engineAfter(remoteEnginesFor(t)[0], 1))
	w.connectSSH(t)
	w.createContext(t, "two")
	other := *w
	t.Cleanup(func() { other.removeContainers(t) })
	w.engine, w.endpoint = here, nil
	run(t, w.docker("context", "create", "one", "--docker", "host="+here.Host)).expect(t, 0)
	w.setenv("RALPH_WORKSPACE", "clone")
	w.setenv("RALPH_IMAGE", engines.BaseImage())
	use := func(name string) { run(t, w.docker("context", "use", name)).expect(t, 0) }
	assertOn := func(here, there int) {
		t.Helper()
		assert.Equal(t, len(w.containers(t)), here)
		assert.Equal(t, len(other.containers(t)), there)
	}
	commit := func(file string) []string {
		return []string{"echo \"$(uname -s) made " + file + "\" && echo >" + file + " && git add " + file + " && git commit -qm " + file}
	}

	use("one")
	w.plan(t, task{ID: "a", Title: "Add a", Steps: commit("a")}, task{ID: "b", Title: "Add b", Priority: 2, Steps: commit("b")}, task{ID: "c", Title: "Left", Priority: 3})
	w.ok(t, "build", "-n", "1")
	use("two")
	w.ok(t, "shell", "--", "sh", "-c", commit("shell")[0])
	assertOn(1, 0)
	name := w.containers(t)[0].Names[0][1:]
	assert.Assert(t, is.Contains(w.ok(t, "ls", "--format", "{{.Name}} {{.Engine}}"), name+" one"))

	refused := run(t, w.docker("--context", "two", "ralph", "shell", "--", "true")).expect(t, 1)
	assert.Assert(t, is.Contains(refused.stderr, "sandbox "+name+" is on engine one\nHint: run \"docker --context one ralph ...\", or move it with --move"))

	// To another machine, and back.
	moved := w.ralph(t, "--move", "build", "-n", "1").expect(t, 0)
	assert.Assert(t, is.Contains(moved.stderr, "Moving sandbox "+name+" from engine one to two"))
	assertOn(0, 1)
	assert.Equal(t, strings.Join(strings.Fields(w.git(t, "log", "--format=%s")), " "), "b shell a first")
	use("one")
	w.ok(t, "task", "create", "d", "Created meanwhile")
	assertOn(0, 1)
	w.createSandbox(t, "--move")
	assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done", "c": "open", "d": "open"})
	assertOn(1, 0)
	assert.Equal(t, len(w.logFiles(t, "loop.json")), 2)
	assert.Check(t, is.Contains(w.ok(t, "logs"), "Linux made b"))

	w.ok(t, "clean", "--force", name)
	w.createSandbox(t) // on the selected engine again
	assertOn(1, 0)
}
