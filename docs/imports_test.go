package docs

import (
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const module = "github.com/docker-ralph/docker-ralph/"

// TestProgramsLinkNothingElse checks what the programs link, over all that they
// import: the linter sees direct imports only.
func TestProgramsLinkNothingElse(t *testing.T) {
	t.Parallel()
	for program, forbidden := range map[string][]string{
		// The host side: no test code, and nothing of what runs inside but the backlog.
		"cmd/docker-ralph": {
			module + "internal/testutil", module + "ralph/agent", module + "ralph/amend", module + "ralph/cli", module + "ralph/compat", module + "ralph/guest",
			module + "ralph/loop", module + "ralph/prices", module + "ralph/screen", module + "ralph/tempfiles", "testing", "gotest.tools",
		},
		// Inside the sandbox: nothing of the host side, and no engine.
		"cmd/ralph": {
			module + "internal/testutil", module + "plugin", module + "lifecycle", module + "gitsync", module + "projectimage",
			"github.com/moby/moby", "github.com/docker/cli", "testing", "gotest.tools",
		},
		// Beside the sandbox: the network policy alone.
		"cmd/ralph-egress": {
			module + "internal/testutil", module + "plugin", module + "lifecycle", module + "gitsync", module + "projectimage",
			module + "config", module + "credential", module + "ralph", "github.com/moby/moby", "github.com/docker/cli", "testing", "gotest.tools",
		},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+program)
			cmd.Dir = ".."
			out, err := cmd.Output()
			assert.NilError(t, err)
			linked := strings.Fields(string(out))
			assert.Assert(t, len(linked) > 20, "only %d packages are linked", len(linked))
			for _, pkg := range linked {
				for _, prefix := range forbidden {
					assert.Check(t, pkg != prefix && !strings.HasPrefix(pkg, prefix+"/"), "%s links %s", program, pkg)
				}
			}
		})
	}
}
