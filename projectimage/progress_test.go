package projectimage

import (
	"strings"
	"testing"

	buildkit "github.com/moby/buildkit/client"
	"gotest.tools/v3/assert"
)

func TestLongStepsAreShownBriefly(t *testing.T) {
	script := "[2/5] RUN set -eu;     " + strings.Repeat("echo a long script; ", 20)
	reason := `process "` + script + `" did not complete successfully: exit code: 1`
	status := func() *buildkit.SolveStatus {
		return &buildkit.SolveStatus{Vertexes: []*buildkit.Vertex{{Name: script, Error: reason}, {Name: "[1/5] FROM x"}}}
	}
	plain := Progress{Mode: ModePlain}.briefly(status())
	assert.Equal(t, len(plain.Vertexes[0].Name), nameMax+len(" …"))
	assert.Assert(t, strings.HasPrefix(plain.Vertexes[0].Name, "[2/5] RUN set -eu; echo"))
	assert.Assert(t, strings.HasSuffix(plain.Vertexes[0].Error, "exit code: 1"))
	assert.Assert(t, len(plain.Vertexes[0].Error) < 3*nameMax)
	assert.Equal(t, plain.Vertexes[1].Name, "[1/5] FROM x")

	assert.DeepEqual(t, Progress{Mode: ModeRawJSON}.briefly(status()), status())
}
