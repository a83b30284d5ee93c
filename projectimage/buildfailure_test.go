package projectimage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	buildkit "github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func logOf(vertex digest.Digest, data ...string) *buildkit.SolveStatus {
	status := &buildkit.SolveStatus{}
	for _, d := range data {
		status.Logs = append(status.Logs, &buildkit.VertexLog{Vertex: vertex, Data: []byte(d)})
	}
	return status
}

func TestStepLog(t *testing.T) {
	var log stepLog
	log.record(logOf("a", "good\n"))
	log.record(logOf("b", "one\ntw", "o\r\n\n", "\x1b[31mthree"))
	log.record(logOf("a", "more\n"))
	log.record(&buildkit.SolveStatus{Vertexes: []*buildkit.Vertex{{Digest: "b", Error: "exit code: 1"}, {Digest: "a"}}})
	assert.DeepEqual(t, log.failed(), []string{"one", "two", "[31mthree"})
}

func TestStepLogKeepsTheEnd(t *testing.T) {
	var log stepLog
	for i := range 50 {
		log.record(logOf("a", fmt.Sprintf("line %d\n", i)))
	}
	log.record(&buildkit.SolveStatus{Vertexes: []*buildkit.Vertex{{Digest: "a", Error: "x"}}})
	lines := log.failed()
	assert.Assert(t, cmp.Len(lines, logTail))
	assert.Equal(t, lines[logTail-1], "line 49")
}

func TestStepLogWithoutFailure(t *testing.T) {
	var log stepLog
	assert.Assert(t, cmp.Len(log.failed(), 0))
	log.record(logOf("a", "line\n"))
	assert.Assert(t, cmp.Len(log.failed(), 0))
}

func TestBuildErrorText(t *testing.T) {
	err := &BuildError{
		Tag: "t:v1", Base: "debian:12",
		Source: "Dockerfile:3\n    3 | >>> RUN false",
		Log:    []string{"one", "two"},
		Err:    errors.New("process did not complete: exit code: 1"),
	}
	assert.Error(t, err, `building image "t:v1" on base "debian:12": process did not complete: exit code: 1`+
		"\nDockerfile:3\n    3 | >>> RUN false\nthe step's last lines:\n  one\n  two")
}

func TestShorten(t *testing.T) {
	assert.Equal(t, shorten("short", 10), "short")
	assert.Equal(t, shorten("0123456789abcdef", 8), "0123 … cdef")
	assert.Assert(t, utf8.ValidString(shorten(strings.Repeat("ü", 40), 21)))
}

func FuzzStepLog(f *testing.F) {
	f.Add("one\ntwo\r\n\x1b[2J", 3)
	f.Add("\n\n\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, data string, cut int) {
		if cut < 0 || cut > len(data) {
			cut = 0
		}
		var whole, split step
		whole.write(data)
		split.write(data[:cut])
		split.write(data[cut:])
		assert.DeepEqual(t, whole.lines, split.lines)
		assert.Assert(t, len(whole.lines) <= logTail)
		for _, line := range whole.lines {
			assert.Assert(t, utf8.ValidString(line))
			assert.Assert(t, !strings.ContainsFunc(line, unicode.IsControl))
		}
	})
}
