package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// holdReport holds the report of a loop back until its end; nil for a command that prints none.
func (h *session) holdReport(opts Options) *reportOutput {
	if !printsReport(opts) {
		return nil
	}
	o := &reportOutput{to: h.Stdout}
	h.Stdout = o
	return o
}

// printsReport reports whether a loop prints a [runlog.Report].
func printsReport(opts Options) bool {
	for i, arg := range opts.Args {
		if arg == "--format=json" || arg == "json" && i > 0 && opts.Args[i-1] == "--format" {
			return host.IsLoop(opts.Command)
		}
	}
	return false
}

// reportOutput holds the last line of a loop back that looks like its report, which has to agree with
// the command's exit code: the commits are fetched after the loop has printed it.
type reportOutput struct {
	to io.Writer

	mu   sync.Mutex
	held []byte // that line, or the beginning of one
	mid  bool   // the last write ended in the middle of another line
}

// Write implements [io.Writer].
func (o *reportOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var pass []byte
	for line := range bytes.Lines(p) {
		if !o.mid {
			if bytes.HasSuffix(o.held, []byte("\n")) { // it was not the last one
				pass, o.held = append(pass, o.held...), nil
			}
			line, o.held = append(o.held, line...), nil
			if beginsReport(line) {
				o.held = line
				continue
			}
		}
		pass = append(pass, line...)
		o.mid = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := o.to.Write(pass); err != nil {
		return 0, err
	}
	return len(p), nil
}

// beginsReport reports whether a line is a report, or its beginning.
func beginsReport(line []byte) bool {
	n := min(len(line), len(runlog.ReportPrefix))
	return string(line[:n]) == runlog.ReportPrefix[:n]
}

// end prints the report with the end of the command, and returns that error, or its own.
func (o *reportOutput) end(code int, err error) error {
	if o == nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.held
	if !continues(err) {
		line = withEnd(line, code, err)
	}
	o.held = nil
	if _, writeErr := o.to.Write(line); writeErr != nil && err == nil {
		err = fmt.Errorf("printing the report: %w", writeErr)
	}
	return err
}

// withEnd returns a report with the end of the command, unless it has that already.
func withEnd(line []byte, code int, err error) []byte {
	_, unmerged := errors.AsType[*commits.UnmergedError](err)
	if err != nil && !unmerged {
		code = 1 // as the plugin returns
	}
	var iterations, totals json.RawMessage
	r := runlog.Report{Iterations: &iterations, Totals: &totals}
	content := bytes.TrimRight(line, "\r\n")
	if json.Unmarshal(content, &r) != nil || r.ExitCode == code {
		return line
	}
	r.Stop, r.ExitCode = "failed", code
	if unmerged {
		r.Stop = wire.StopUnmerged
	}
	if err != nil {
		texts := slices.DeleteFunc([]string{r.Error, termsafe.Line(err.Error())}, func(text string) bool { return text == "" })
		r.Error = strings.Join(texts, "; ")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(r) != nil {
		return line
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), line[len(content):]...)
}
