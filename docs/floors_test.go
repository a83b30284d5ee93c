package docs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// floors are the packages from the ground up. A package imports only what lies below
// its own floor, or within its own line.
var floors = []string{
	"hint lazyregexp",
	"scopes wire",
	"egress gitrepo",
	"credential gitsync projectimage ralph/attempt ralph/sysinfo",
	"config ralph/backlog",
	"ralph/task",
	"ralph/session",
	"lifecycle lifecycle/guestbin",
	"lifecycle/container lifecycle/microvm lifecycle/selftest lifecycle/session",
	"lifecycle/host",
	"lifecycle/approval",
	"lifecycle/backlogs lifecycle/network",
	"lifecycle/commits",
	"lifecycle/run",
	"lifecycle/images lifecycle/manage",
	"lifecycle/disk lifecycle/pullrequest lifecycle/watch",
	"lifecycle/dashboard",
	"plugin",
	"ralph/prices ralph/tempfiles",
	"ralph/amend ralph/guest",
	"ralph/agent",
	"ralph/screen",
	"ralph/compat ralph/loop",
	"ralph/cli",
	"cmd",
}

// TestImportsPointDown checks the floors of architecture.md. If each import points
// down, so does everything that comes with it.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	assert.NilError(t, err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		if test := strings.HasPrefix(pkg, "e2e") || strings.HasPrefix(pkg, "internal/"); test || strings.HasPrefix(pkg, "docs") || strings.HasPrefix(pkg, "scripts/") {
			continue
		}
		own, ownRoom := floorOf(pkg)
		assert.Check(t, own >= 0, "%s is on no floor", pkg)
		for _, imported := range fields[1:] {
			name, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			floor, room := floorOf(name)
			assert.Check(t, floor >= 0, "%s is on no floor", name)
			assert.Check(t, floor < own || room == ownRoom, "%s imports %s, which is not below it", pkg, name)
		}
	}
}

// floorOf returns the floor of a package, and the room that it is part of: the
// longest name on a floor that it has or is below.
func floorOf(pkg string) (floor int, room string) {
	floor = -1
	for i, names := range floors {
		for _, name := range strings.Fields(names) {
			if (pkg == name || strings.HasPrefix(pkg, name+"/")) && len(name) > len(room) {
				floor, room = i, name
			}
		}
	}
	return floor, room
}

// TestFloorsExist finds names that are on a floor and have no package any more.
func TestFloorsExist(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	assert.NilError(t, err)
	all := strings.Fields(string(out))
	for _, name := range strings.Fields(strings.Join(floors, " ")) {
		assert.Check(t, slices.ContainsFunc(all, func(pkg string) bool {
			return pkg == module+name || strings.HasPrefix(pkg, module+name+"/")
		}), "there is no package %s", name)
	}
}
