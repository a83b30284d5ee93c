package projectimage

import (
	"bytes"
	"fmt"
	"io"
	"time"

	buildkit "github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Mode is how builds and pulls are displayed.
type Mode string

// The modes, with the meaning they have in docker build --progress.
const (
	ModeAuto    Mode = "auto"    // tty on a terminal, else plain
	ModePlain   Mode = "plain"   // lines
	ModeTTY     Mode = "tty"     // redrawn in place; an error without a terminal
	ModeQuiet   Mode = "quiet"   // nothing
	ModeRawJSON Mode = "rawjson" // JSON lines: BuildKit's status for builds, the engine's messages for pulls
)

// Progress is where and how builds and pulls are displayed. The zero value displays nothing.
type Progress struct {
	Mode Mode      // empty means auto
	Out  io.Writer // only an *os.File can be a terminal
}

// Modes returns every progress mode.
func Modes() []Mode { return []Mode{ModeAuto, ModePlain, ModeTTY, ModeQuiet, ModeRawJSON} }

// display returns the display for one build.
func (p Progress) display() (progressui.Display, error) {
	if p.Out == nil {
		return progressui.NewDisplay(io.Discard, progressui.QuietMode)
	}
	display, err := progressui.NewDisplay(p.Out, progressui.DisplayMode(p.Mode))
	if err != nil {
		return progressui.Display{}, fmt.Errorf("displaying progress as %q: %w", p.Mode, err)
	}
	return display, nil
}

// silent reports whether nothing is written.
func (p Progress) silent() bool { return p.Out == nil || p.Mode == ModeQuiet }

// notice writes a line, except in JSON output.
func (p Progress) notice(format string, args ...any) {
	if p.silent() || p.Mode == ModeRawJSON {
		return
	}
	_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
}

// maxName is the displayed length of a step's name, in characters.
const maxName = 110

// sanitizer removes terminal control sequences from the status of a build: the Dockerfile and
// its steps are not trusted. JSON output is complete.
type sanitizer struct {
	mode Mode
	logs map[logStream]*cleanLog
}

// logStream is stdout or stderr of a step.
type logStream struct {
	step   digest.Digest
	stream int
}

// cleanLog sanitizes a stream, whose parts may start and end within a sequence.
type cleanLog struct {
	clean  bytes.Buffer
	writer *termsafe.Writer
}

// sanitize changes status.
func (s *sanitizer) sanitize(status *buildkit.SolveStatus) *buildkit.SolveStatus {
	if s.mode == ModeRawJSON {
		return status
	}
	for _, vertex := range status.Vertexes {
		vertex.Name = termsafe.Shorten(termsafe.Visible(oneSpaced(vertex.Name)), maxName)
		vertex.Error = termsafe.Visible(shorten(oneSpaced(vertex.Error), 2*maxName))
	}
	for _, part := range status.Statuses {
		part.ID, part.Name = termsafe.Visible(part.ID), termsafe.Visible(part.Name)
	}
	for _, warning := range status.Warnings {
		warning.Short, warning.URL = []byte(termsafe.Visible(string(warning.Short))), termsafe.Visible(warning.URL)
		for i, line := range warning.Detail {
			warning.Detail[i] = []byte(termsafe.Visible(string(line)))
		}
	}
	for _, entry := range status.Logs {
		entry.Data = s.clean(logStream{entry.Vertex, entry.Stream}, entry.Data)
	}
	return status
}

func (s *sanitizer) clean(of logStream, data []byte) []byte {
	log := s.logs[of]
	if log == nil {
		log = &cleanLog{}
		log.writer = termsafe.NewWriter(&log.clean)
		if s.logs == nil {
			s.logs = map[logStream]*cleanLog{}
		}
		s.logs[of] = log
	}
	log.clean.Reset()
	_, _ = log.writer.Write(data)
	return bytes.Clone(log.clean.Bytes())
}

// openSteps are the steps of a build that the engine has not reported as completed: a busy
// one may omit that at the end of the build.
type openSteps map[digest.Digest]*buildkit.Vertex

func (o openSteps) record(status *buildkit.SolveStatus) {
	for _, vertex := range status.Vertexes {
		if vertex.Completed == nil {
			o[vertex.Digest] = vertex
		} else {
			delete(o, vertex.Digest)
		}
	}
}

// complete returns the missing status of a build that has succeeded.
func (o openSteps) complete(now time.Time) *buildkit.SolveStatus {
	status := &buildkit.SolveStatus{}
	for _, vertex := range o {
		ended := *vertex
		if ended.Started == nil {
			ended.Started = &now
		}
		ended.Completed = &now
		status.Vertexes = append(status.Vertexes, &ended)
	}
	return status
}
