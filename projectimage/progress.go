package projectimage

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	buildkit "github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Mode is a way to show builds and pulls.
type Mode string

// The modes, with the meaning they have in docker build --progress.
const (
	ModeAuto    Mode = "auto"    // tty on a terminal, else plain
	ModePlain   Mode = "plain"   // lines
	ModeTTY     Mode = "tty"     // redrawn in place; an error without a terminal
	ModeQuiet   Mode = "quiet"   // nothing
	ModeRawJSON Mode = "rawjson" // JSON lines: BuildKit's status for builds, the engine's messages for pulls
)

// Progress is where and how builds and pulls are shown. The zero value shows
// nothing.
type Progress struct {
	Mode Mode      // empty means auto
	Out  io.Writer // an *os.File when it is a terminal, or else nothing is redrawn in place
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
		return progressui.Display{}, fmt.Errorf("showing progress as %q: %w", p.Mode, err)
	}
	return display, nil
}

// silent reports whether nothing may be written.
func (p Progress) silent() bool { return p.Out == nil || p.Mode == ModeQuiet }

// notice writes one line for a reader; a program that reads JSON gets none.
func (p Progress) notice(format string, args ...any) {
	if p.silent() || p.Mode == ModeRawJSON {
		return
	}
	_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
}

// nameMax is the length in bytes of a step's name that is shown; the rest of a
// script that is meant to be run says a reader nothing.
const nameMax = 110

// teller makes what an engine says of a build fit for a terminal and a reader: a
// repository wrote the Dockerfile, and its steps are strangers' programs. A program
// that reads JSON gets all of it.
type teller struct {
	mode Mode
	logs map[logStream]*cleanLog
}

// logStream is what a step writes to stdout or to stderr.
type logStream struct {
	step   digest.Digest
	stream int
}

// cleanLog is a stream without what a terminal would obey. Its pieces may begin and
// end within a sequence.
type cleanLog struct {
	clean  bytes.Buffer
	writer *termsafe.Writer
}

// tell changes status.
func (t *teller) tell(status *buildkit.SolveStatus) *buildkit.SolveStatus {
	if t.mode == ModeRawJSON {
		return status
	}
	for _, vertex := range status.Vertexes {
		name := termsafe.Visible(oneSpaced(vertex.Name))
		if len(name) > nameMax {
			name = strings.ToValidUTF8(name[:nameMax], "") + " …"
		}
		vertex.Name, vertex.Error = name, termsafe.Visible(shorten(oneSpaced(vertex.Error), 2*nameMax))
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
		entry.Data = t.clean(logStream{entry.Vertex, entry.Stream}, entry.Data)
	}
	return status
}

func (t *teller) clean(of logStream, data []byte) []byte {
	log := t.logs[of]
	if log == nil {
		log = &cleanLog{}
		log.writer = termsafe.NewWriter(&log.clean)
		if t.logs == nil {
			t.logs = map[logStream]*cleanLog{}
		}
		t.logs[of] = log
	}
	log.clean.Reset()
	_, _ = log.writer.Write(data)
	return bytes.Clone(log.clean.Bytes())
}

// openSteps are the steps of a build whose end the engine has not told. A busy
// one can leave that out when the build ends. A step can run more than once, and
// the end of one run says nothing of another.
type openSteps map[stepRun]*buildkit.Vertex

// stepRun is one run of a step. The zero time is that of a step which has not run.
type stepRun struct {
	step    digest.Digest
	started int64 // nanoseconds since 1970
}

func (o openSteps) record(status *buildkit.SolveStatus) {
	for _, vertex := range status.Vertexes {
		run := stepRun{step: vertex.Digest}
		if vertex.Started != nil {
			delete(o, run)
			run.started = vertex.Started.UnixNano()
		}
		if vertex.Completed == nil {
			o[run] = vertex
		} else {
			delete(o, run)
		}
	}
}

// end is what the engine should have said of a build that has succeeded.
func (o openSteps) end(now time.Time) *buildkit.SolveStatus {
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
