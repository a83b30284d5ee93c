package projectimage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	buildkit "github.com/moby/buildkit/client"
	buildkiterrdefs "github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/solver/pb"
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
	assert.DeepEqual(t, log.failed(), []string{"one", "two", "three"})
}

// What comes from stdout and stderr at once tears no line.
func TestStepLogKeepsStreamsApart(t *testing.T) {
	var log stepLog
	piece := func(stream int, data string) {
		log.record(&buildkit.SolveStatus{Logs: []*buildkit.VertexLog{{Vertex: "a", Stream: stream, Data: []byte(data)}}})
	}
	piece(2, "E")
	piece(1, "Package figlet is not available\nit may ")
	piece(2, ": Unable to locate package\nlast")
	piece(1, "be missing")
	log.record(&buildkit.SolveStatus{Vertexes: []*buildkit.Vertex{{Digest: "a", Error: "exit code: 100"}}})
	assert.DeepEqual(t, log.failed(), []string{"Package figlet is not available", "E: Unable to locate package", "it may be missing", "last"})
}

func TestStepLogKeepsTheEnd(t *testing.T) {
	var log stepLog
	for i := range 2 * maxLog {
		log.record(logOf("a", fmt.Sprintf("line %d\n", i)))
	}
	log.record(&buildkit.SolveStatus{Vertexes: []*buildkit.Vertex{{Digest: "a", Error: "x"}}})
	lines := log.failed()
	assert.Assert(t, cmp.Len(lines, maxLog))
	last := fmt.Sprintf("line %d", 2*maxLog-1)
	assert.Equal(t, lines[maxLog-1], last)

	failure := newBuildError(buildSpec{}, errors.New("exit code: 1"), log.failed())
	assert.Assert(t, cmp.Len(failure.Log, logTail))
	assert.Equal(t, failure.Log[logTail-1], last)
}

func TestStepLogWithoutFailure(t *testing.T) {
	var log stepLog
	assert.Assert(t, cmp.Len(log.failed(), 0))
	log.record(logOf("a", "line\n"))
	assert.Assert(t, cmp.Len(log.failed(), 0))
}

func TestAskedFor(t *testing.T) {
	packages, err := parseDependencies("dependencies", []byte("tree\ntree=9\n# x\nlibc6:s390x\nno.such+\ng++\nodd\n"))
	assert.NilError(t, err)
	p := Project{File: "dependencies", Packages: packages}
	for _, tc := range []struct {
		name string
		log  []string
		want []string
	}{
		{"name", []string{"E: Unable to locate package odd"}, []string{"7: no package odd"}},
		{"architecture", []string{"E: Unable to locate package libc6:s390x"}, []string{"4: no package libc6:s390x"}},
		{"version", []string{"E: Version '9' for 'tree' was not found"}, []string{"2: no package tree=9"}},
		{"in the file's order", []string{"E: Unable to locate package odd", "Reading", "E: Unable to locate package tree"}, []string{"1: no package tree", "2: no package tree=9", "7: no package odd"}},
		{"as a pattern", []string{"E: Unable to locate package no.such", "E: Couldn't find any package by regex 'no.such'"}, []string{"5: no package no.such+"}},
		{"no candidate", []string{"E: Package 'g++' has no installation candidate"}, []string{"6: no package g++"}},
		{"something else", []string{"E: Unable to fetch some archives", "W: Unable to locate package odd", "E: Unable to locate package other"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want []string
			for _, line := range tc.want {
				want = append(want, "dependencies:"+line)
			}
			assert.DeepEqual(t, p.missing(tc.log), want)
		})
	}
}

func TestHint(t *testing.T) {
	packages := &Project{Root: "/src/shop", File: "/src/shop/.agent-loop/dependencies", Packages: []Package{{"tree", 1}}}
	own := &Project{Root: "/src/shop", File: "/src/shop/.agent-loop/Dockerfile.sandbox"}
	noApt, failed := []string{"/bin/sh: apt-get: not found"}, errors.New("exit code: 127")
	for _, tc := range []struct {
		name    string
		project *Project
		err     error
		log     []string
		want    string
	}{
		{"no apt-get", packages, failed, noApt, "/src/shop/.agent-loop/dependencies needs a base image with apt-get: "},
		{"no apt-get for bash", packages, failed, []string{"bash: line 1: apt-get: command not found"}, "needs a base image with apt-get: "},
		{"no apt-get for another Dockerfile", own, failed, noApt, ""},
		{"no secret", own, errors.New("failed to solve: secret key: not found"), nil, "image build --secret id=key,src=FILE"},
		{"no secret on Docker 20.10", own, errors.New("secret key not found: not found"), nil, "image build --secret id=key,src=FILE"},
		{"something else", own, failed, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := remedy(buildSpec{project: tc.project}, tc.err, tc.log)
			assert.Assert(t, cmp.Contains(got, tc.want))
			assert.Equal(t, got == "", tc.want == "")
		})
	}
}

func TestBuildErrorText(t *testing.T) {
	err := &BuildError{
		Tag: "t:v1", Base: "debian:12",
		Source: "Dockerfile:3\n    3 | >>> RUN false",
		Log:    []string{"one", "two"},
		Err:    errors.New("process did not complete: exit code: 1"),
	}
	assert.Error(t, err, `building image "t:v1" on base "debian:12": process did not complete: exit code: 1`+
		"\nDockerfile:3\n    3 | >>> RUN false\nlast output of the step:\n  one\n  two")
}

func TestDockerfileTooNewForTheEngine(t *testing.T) {
	const heredoc = "FROM x\nRUN <<EOF\nset -e\nEOF\n"
	err := errors.New("failed to create LLB definition: dockerfile parse error line 3: unknown instruction: SET")
	assert.Assert(t, tooNew([]byte(heredoc), err))
	assert.Assert(t, !tooNew([]byte(heredoc), errors.New("exit code: 1")))
	assert.Assert(t, !tooNew([]byte("# syntax=docker/dockerfile:1\n"+heredoc), err))
	assert.Assert(t, !tooNew([]byte("FROM x\nRUNN\nset -e\n"), err), "no BuildKit knows RUNN")
}

// The file is a stranger's: nothing in it commands the terminal.
func TestFailedSourceIsPrintable(t *testing.T) {
	source := &buildkiterrdefs.Source{
		Info:   &pb.SourceInfo{Filename: "Dockerfile", Data: []byte("FROM x\nRUN \x1b[2J\r\nUSER y\n")},
		Ranges: []*pb.Range{{Start: &pb.Position{Line: 2}, End: &pb.Position{Line: 2}}},
	}
	assert.Equal(t, failedSource(source.WrapError(errors.New("exit code: 1"))),
		"Dockerfile:2\n--------------------\n   1 |     FROM x\n   2 | >>> RUN \ufffd[2J\n   3 |     USER y\n   4 |\n--------------------")
	assert.Equal(t, failedSource(errors.New("exit code: 1")), "")
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
		whole.write(1, data)
		split.write(1, data[:cut])
		split.write(1, data[cut:])
		assert.DeepEqual(t, whole.lines, split.lines)
		assert.Assert(t, len(whole.lines) <= maxLog)
		for _, line := range whole.lines {
			assert.Assert(t, utf8.ValidString(line))
			assert.Assert(t, !strings.ContainsFunc(line, unicode.IsControl))
		}
	})
}
