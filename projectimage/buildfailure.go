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
	logTail   = 10  // lines of a failed step that an error repeats
	logKept   = 500 // lines of a step that are kept to look for apt's reasons
	reasonMax = 240 // bytes of BuildKit's reason, which quotes whole scripts
)

// BuildError says that building an image failed.
type BuildError struct {
	Tag, Base string
	Source    string   // the lines of the Dockerfile that failed; empty when BuildKit does not say
	Log       []string // the end of what the failed step wrote
	Asked     []string // lines of a project's file that ask for what the step says it cannot find
	Hint      string   // what helps; empty for most failures
	Err       error    // BuildKit's error
}

func newBuildError(spec buildSpec, err error, log *stepLog) *BuildError {
	wrote := log.failed()
	failure := &BuildError{
		Tag: spec.tag, Base: spec.base, Err: err,
		Source: failedSource(err),
		Log:    wrote[max(len(wrote)-logTail, 0):],
	}
	if spec.project != nil {
		failure.Asked = spec.project.askedFor(wrote)
		failure.Hint = remedy(spec, err, wrote)
	}
	return failure
}

// failedSource returns BuildKit's excerpt of the Dockerfile around the lines that
// failed, "" where it sends none, as in Docker 20.10.
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

// parseError finds BuildKit's words for a mistake in a Dockerfile's syntax.
var parseError = lazyregexp.New(`(?i)dockerfile parse error (?:on )?line \d+: `)

// tooNew reports whether err says that an engine's BuildKit does not know the
// heredocs or a flag of a Dockerfile, which could ask for a current BuildKit.
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

// noSecret finds the ID of a secret that a build was not given.
var noSecret = lazyregexp.New(`secret ([^\s:]+):? not found`)

// noApt finds a shell's words for a base image that is not Debian's.
var noApt = lazyregexp.New(`apt-get: (?:command )?not found`)

// remedy returns what helps against a failure of a project's layer, "" when that
// is not known.
func remedy(spec buildSpec, err error, log []string) string {
	if len(spec.project.Packages) > 0 && slices.ContainsFunc(log, noApt().MatchString) {
		return fmt.Sprintf("%s needs a base with apt-get: take one with --base IMAGE, or install the packages in %s",
			spec.project.File, projectPath(spec.project.Root, sandboxDockerfile))
	}
	if tooNew(spec.dockerfile, err) {
		return "the engine's BuildKit is too old for this Dockerfile: begin it with the line \"# syntax=docker/dockerfile:1\", " +
			"which fetches a current one, or do without what is newer"
	}
	if match := noSecret().FindStringSubmatch(err.Error()); match != nil {
		return termsafe.Visible(fmt.Sprintf("build the image with the secret first: docker ralph image build --secret id=%s,src=FILE", match[1]))
	}
	return ""
}

func (e *BuildError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "building image %q on base %q: %s", e.Tag, e.Base, termsafe.Visible(shorten(oneSpaced(e.Err.Error()), reasonMax)))
	if e.Source != "" {
		text.WriteString("\n" + e.Source)
	}
	if len(e.Log) > 0 {
		text.WriteString("\nthe step's last lines:\n  " + strings.Join(e.Log, "\n  "))
	}
	for _, line := range e.Asked {
		text.WriteString("\n" + line)
	}
	if e.Hint != "" {
		text.WriteString("\n" + e.Hint)
	}
	return text.String()
}

func (e *BuildError) Unwrap() error { return e.Err }

// oneSpaced returns text with every run of white space as one space.
func oneSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// shorten cuts the middle out of text: a reason begins with what was done and
// ends with what came of it.
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
	open  map[int]string // by stream, a line without its end: pieces of stdout and stderr come mixed
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

// failed returns the last lines of the step that failed, [logKept] at most.
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

// write takes a piece of a stream that may begin and end anywhere in a line.
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
		if len(s.lines) > logKept {
			s.lines = s.lines[1:]
		}
	}
}
