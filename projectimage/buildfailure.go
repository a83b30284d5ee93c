package projectimage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	buildkit "github.com/moby/buildkit/client"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	logTail   = 10  // lines of a failed step in the error
	maxLog    = 500 // lines of a step that are searched for apt's errors
	maxReason = 240 // bytes of BuildKit's error, which quotes whole scripts
)

// BuildError says that building an image failed.
type BuildError struct {
	Tag, Base string
	Source    string   // the lines of the Dockerfile that failed; empty if BuildKit sends none
	Log       []string // the last output of the failed step
	Missing   []string // lines of a project's file with packages that apt does not find
	Err       error    // BuildKit's error
}

// newBuildError describes a failure of BuildKit. log is the output of the failed step.
func newBuildError(spec buildSpec, err error, log []string) *BuildError {
	failure := &BuildError{
		Tag: spec.tag, Base: spec.base, Err: err,
		Source: failedSource(err),
		Log:    log[max(len(log)-logTail, 0):],
	}
	if spec.project != nil {
		failure.Missing = spec.project.missing(log)
	}
	return failure
}

// failedSource returns BuildKit's excerpt of the Dockerfile around the failed lines, "" for
// Docker 20.10, which sends none.
func failedSource(err error) string {
	for _, source := range errdefs.Sources(err) {
		var text strings.Builder
		if source.Print(&text) == nil && text.Len() > 0 {
			var lines []string
			for line := range strings.SplitSeq(strings.TrimRight(text.String(), "\n"), "\n") {
				lines = append(lines, strings.TrimRight(termsafe.Visible(strings.TrimRight(line, "\r")), " "))
			}
			return strings.Join(lines, "\n")
		}
	}
	return ""
}

// parseError matches BuildKit's syntax errors.
var parseError = lazyregexp.New(`(?i)dockerfile parse error (?:on )?line \d+: `)

// tooNew reports whether the engine's BuildKit does not support heredocs or a flag of a
// Dockerfile without a syntax directive.
func tooNew(dockerfile []byte, err error) bool {
	if !parseError().MatchString(err.Error()) {
		return false
	}
	if _, _, _, asks := parser.DetectSyntax(dockerfile); asks {
		return false
	}
	if strings.Contains(err.Error(), "Unknown flag: ") {
		return true
	}
	result, err := parser.Parse(bytes.NewReader(dockerfile))
	return err == nil && slices.ContainsFunc(result.AST.Children, func(node *parser.Node) bool { return len(node.Heredocs) > 0 })
}

// noSecret matches the ID of a missing secret.
var noSecret = lazyregexp.New(`secret ([^\s:]+):? not found`)

// noApt matches a shell's error on a base image without apt-get.
var noApt = lazyregexp.New(`apt-get: (?:command )?not found`)

// remedy returns a hint for a failure of a project's layer, "" if none is known.
func remedy(spec buildSpec, err error, log []string) string {
	if spec.project == nil {
		return ""
	}
	if len(spec.project.Packages) > 0 && slices.ContainsFunc(log, noApt().MatchString) {
		return fmt.Sprintf("%s needs a base image with apt-get: choose one with --base IMAGE, or install the packages in %s",
			spec.project.File, projectPath(spec.project.Root, sandboxDockerfile))
	}
	if tooNew(spec.dockerfile, err) {
		return "the engine's BuildKit is too old for this Dockerfile: start it with the line \"# syntax=docker/dockerfile:1\""
	}
	if match := noSecret().FindStringSubmatch(err.Error()); match != nil {
		return termsafe.Visible(fmt.Sprintf("run \"docker ralph image build --secret id=%s,src=FILE\" first", match[1]))
	}
	return ""
}

func (e *BuildError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "building image %q on base %q: %s", e.Tag, e.Base, termsafe.Visible(shorten(oneSpaced(e.Err.Error()), maxReason)))
	if e.Source != "" {
		text.WriteString("\n" + e.Source)
	}
	if len(e.Log) > 0 {
		text.WriteString("\nlast output of the step:\n  " + strings.Join(e.Log, "\n  "))
	}
	for _, line := range e.Missing {
		text.WriteString("\n" + line)
	}
	return text.String()
}

func (e *BuildError) Unwrap() error { return e.Err }

// oneSpaced collapses white space.
func oneSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// shorten removes the middle of a text.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	half := limit / 2
	return strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
}

// stepLog keeps the last lines that each step of a build wrote.
type stepLog struct {
	steps      map[digest.Digest]*step
	failedStep digest.Digest // the last one that failed
}

type step struct {
	lines []string
	open  map[int]string // unfinished lines by stream
}

func (l *stepLog) record(status *buildkit.SolveStatus) {
	if l.steps == nil {
		l.steps = map[digest.Digest]*step{}
	}
	for _, entry := range status.Logs {
		s := l.steps[entry.Vertex]
		if s == nil {
			s = &step{}
			l.steps[entry.Vertex] = s
		}
		s.write(entry.Stream, string(entry.Data))
	}
	for _, vertex := range status.Vertexes {
		if vertex.Error != "" {
			l.failedStep = vertex.Digest
		}
	}
}

// failed returns the last output of the step that failed, at most [maxLog] lines.
func (l *stepLog) failed() []string {
	s := l.steps[l.failedStep]
	if s == nil {
		return nil
	}
	for _, stream := range slices.Sorted(maps.Keys(s.open)) {
		s.write(stream, "\n")
	}
	return s.lines
}

// write adds a part of a stream, which may start and end within a line.
func (s *step) write(stream int, data string) {
	if s.open == nil {
		s.open = map[int]string{}
	}
	lines := strings.Split(s.open[stream]+data, "\n")
	s.open[stream] = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		line = strings.TrimSpace(termsafe.Strip(strings.ReplaceAll(line, "\t", " ")))
		if line == "" {
			continue
		}
		s.lines = append(s.lines, line)
		if len(s.lines) > maxLog {
			s.lines = s.lines[1:]
		}
	}
}
