//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/engines"
)

// unreachable is an image whose registry nobody has.
const unreachable = "localhost:1/no/such-image:here"

func TestABaseThatCannotBePulledIsNamedWithTheWayOut(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "--base", unreachable, "build").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Check(t, is.Equal(res.stdout, ""))
		for _, part := range []string{`Error: base image "` + unreachable + `" is not on the engine and cannot be pulled`, "--base IMAGE", "[image] in ralph.toml", "--image IMAGE"} {
			assert.Check(t, is.Contains(res.stderr, part))
		}
		res = w.ralph(t, "--image", unreachable, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: image "`+unreachable+`" is not on the engine and cannot be pulled`))
	})
}

func TestAnImageIsBuiltOnceAndUsedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		first := w.container(t)
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell:v[0-9a-f]{8}$`, first.Config.Image))
		w.removeSandboxes(t)

		res := w.ralph(t, "task", "list").expect(t, 0)

		assert.Equal(t, w.container(t).Image, first.Image)
		assert.Check(t, is.Equal(res.stderr, fmt.Sprintf("Creating the sandbox %s with the container driver\n", first.Name[1:])))
	})
}

// Even one that has neither an agent's user nor ralph.
func TestAGivenImageIsUsedAsItIs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		flags := []string{"--image", engines.BaseImage()}
		w.ok(t, append(flags, "task", "create", "a", "Who", "-s", `["id -u >who; id -un >>who; echo $HOME >>who; touch ~/mine; ralph task list >>who"]`)...)
		w.ok(t, append(flags, "build")...)
		assert.Equal(t, w.container(t).Config.Image, engines.BaseImage())
		who := w.read(t, "who")
		assert.Check(t, strings.HasPrefix(who, fmt.Sprintf("%d\nagent\n/home/agent\n", w.uid)), who)
		w.ownsEverything(t)
	})
}
