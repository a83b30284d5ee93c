package projectimage

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// The engine's last word is missing: the build has succeeded all the same.
func TestStepsEndWithTheBuild(t *testing.T) {
	began, ended := time.Unix(1, 0), time.Unix(2, 0)
	open := openSteps{}
	for _, vertexes := range [][]*buildkit.Vertex{
		{{Digest: "a", Name: "[1/2] FROM x"}, {Digest: "b", Name: "[2/2] RUN y", Started: &began}},
		{{Digest: "c", Name: "exporting", Started: &began}},
		{{Digest: "b", Name: "[2/2] RUN y", Started: &began, Completed: &ended}},
		{{Digest: "d", Name: "load", Started: &ended}},
		{{Digest: "d", Name: "load", Started: &began, Completed: &ended}}, // its first run
	} {
		open.record(&buildkit.SolveStatus{Vertexes: vertexes})
	}
	now := time.Unix(3, 0)
	end := open.end(now)
	slices.SortFunc(end.Vertexes, func(a, b *buildkit.Vertex) int { return strings.Compare(a.Name, b.Name) })
	assert.DeepEqual(t, end.Vertexes, []*buildkit.Vertex{
		{Digest: "a", Name: "[1/2] FROM x", Started: &now, Completed: &now},
		{Digest: "c", Name: "exporting", Started: &began, Completed: &now},
		{Digest: "d", Name: "load", Started: &ended, Completed: &now},
	})
	open.record(end)
	assert.Equal(t, len(open), 0)
}
