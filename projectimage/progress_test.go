package projectimage

import (
	"encoding/json"
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
	plain := (&sanitizer{mode: ModePlain}).sanitize(status())
	assert.Equal(t, len(plain.Vertexes[0].Name), maxName+len("…"))
	assert.Assert(t, strings.HasPrefix(plain.Vertexes[0].Name, "[2/5] RUN set -eu; echo"))
	assert.Assert(t, strings.HasSuffix(plain.Vertexes[0].Error, "exit code: 1"))
	assert.Assert(t, len(plain.Vertexes[0].Error) < 3*maxName)
	assert.Equal(t, plain.Vertexes[1].Name, "[1/5] FROM x")

	assert.DeepEqual(t, (&sanitizer{mode: ModeRawJSON}).sanitize(status()), status())
}

// Names are a repository's, and logs are those of strangers' programs.
func TestStepsCommandNoTerminal(t *testing.T) {
	const sneak = "a\x1b]52;c;eA==\ab"
	status := &buildkit.SolveStatus{
		Vertexes: []*buildkit.Vertex{{Name: sneak, Error: sneak}},
		Statuses: []*buildkit.VertexStatus{{ID: sneak, Name: sneak}},
		Warnings: []*buildkit.VertexWarning{{Short: []byte(sneak), Detail: [][]byte{[]byte(sneak)}, URL: sneak}},
		Logs: []*buildkit.VertexLog{
			{Stream: 1, Data: []byte("\x1b[32mgreen\x1b[0m 10%\r20%\n\x1b]52;")},
			{Stream: 2, Data: []byte("other\n")},
			{Stream: 1, Data: []byte("c;eA==\adone\n")},
		},
	}
	(&sanitizer{}).sanitize(status)
	shown, err := json.Marshal(status)
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(shown), `\u001b]`) && !strings.Contains(string(shown), `\u0007`), "%s", shown)
	var log strings.Builder
	for _, entry := range status.Logs {
		log.Write(entry.Data)
	}
	assert.Equal(t, log.String(), "\x1b[32mgreen\x1b[0m 10%\r20%\nother\ndone\n")
}

// The engine's last word is missing: the build has succeeded all the same.
func TestStepsEndWithTheBuild(t *testing.T) {
	began, ended := time.Unix(1, 0), time.Unix(2, 0)
	open := openSteps{}
	for _, vertexes := range [][]*buildkit.Vertex{
		{{Digest: "a", Name: "[1/2] FROM x"}, {Digest: "b", Name: "[2/2] RUN y", Started: &began}},
		{{Digest: "c", Name: "exporting", Started: &began}},
		{{Digest: "b", Name: "[2/2] RUN y", Started: &began, Completed: &ended}},
	} {
		open.record(&buildkit.SolveStatus{Vertexes: vertexes})
	}
	now := time.Unix(3, 0)
	end := open.complete(now)
	slices.SortFunc(end.Vertexes, func(a, b *buildkit.Vertex) int { return strings.Compare(a.Name, b.Name) })
	assert.DeepEqual(t, end.Vertexes, []*buildkit.Vertex{
		{Digest: "a", Name: "[1/2] FROM x", Started: &now, Completed: &now},
		{Digest: "c", Name: "exporting", Started: &began, Completed: &now},
	})
	open.record(end)
	assert.Equal(t, len(open), 0)
}
