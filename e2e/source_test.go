//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// checkout lays another ralph out and makes it the user's choice.
func (w *world) checkout(t *testing.T) string {
	t.Helper()
	program, err := shared.ralph()
	assert.NilError(t, err)
	dir := filepath.Join(w.dir, "checkout")
	run(t, w.command(program, "install-layout", dir)).expect(t, 0)
	w.configureUser(t, "[sandbox]\ndriver = \""+w.driver+"\"\n[ralph]\nsource = \""+dir+"\"\n")
	return dir
}

// What the original ralph needs beside itself; whether it works is not tried
// here.
const (
	someJQ      = "#!/bin/sh\necho jq-1.7\n"
	someSQLite3 = "#!/bin/sh\necho '3.40.1 2022-12-28 14:03:47'\n"
)

func TestAnotherRalphIsInstalledAndItsChangesAreTakenUp(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		dir := w.checkout(t)
		flags := []string{"--image", w.imageOf(t, map[string]string{"/usr/local/bin/jq": someJQ, "/usr/local/bin/sqlite3": someSQLite3})}
		w.ok(t, append(flags, "task", "create", "a", "Title", "-s", `["readlink -f $(command -v ralph) >which"]`)...)
		made := w.sandbox(t)
		assert.Check(t, is.Contains(w.ok(t, append(flags, "task", "list")...), "Title"))

		program := filepath.Join(dir, "ralph.sh")
		assert.NilError(t, os.Rename(program, filepath.Join(dir, "lib", "real")))
		w.write(t, program, "#!/bin/sh\necho edited >&2\nhere=$(readlink -f \"$0\")\nexec \"${here%/*}/lib/real\" \"$@\"\n")
		assert.NilError(t, os.Chmod(program, 0o755))
		res := w.ralph(t, append(flags, "task", "list")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "edited\n"))
		assert.Check(t, is.Contains(res.stdout, "Title"))
		assert.Equal(t, w.sandbox(t).ID, made.ID)

		w.ok(t, append(flags, "build", "-n", "1")...)
		assert.Equal(t, w.read(t, "which"), "/opt/ralph/lib/real\n")
	})
}

func TestAnotherRalphThatLacksItsProgramsIsNotInstalled(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.checkout(t)
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "the sandbox lacks jq and sqlite3"))
		assert.Check(t, is.Contains(res.stderr, "that has jq and sqlite3"))
		assert.Equal(t, len(w.sandboxes(t)), 0, "nothing has run in it")
	})
}

func TestAnotherRalphNeedsAMicroVM(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.checkout(t)
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: ralph.source works in microVMs only"))
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}
