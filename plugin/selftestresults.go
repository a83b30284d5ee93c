package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/cli/cli/streams"

	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// resultPrinter prints what the self-test has found: a table or a template result by
// result, JSON at the end.
type resultPrinter struct {
	out    io.Writer
	format string // empty for the table
	colour bool
	all    []selftest.Result
	err    error
}

func newResultPrinter(format string, out *streams.Out) (*resultPrinter, error) {
	p := &resultPrinter{out: out, format: format, all: []selftest.Result{}}
	p.colour = format == "" && out.IsTerminal() && os.Getenv("NO_COLOR") == ""
	if format == "" {
		return p, nil
	}
	return p, p.listing().check()
}

// row is a line of the table. The first column has room for the longest name
// of a check.
const row = "%-20s  %s  %8s  %s"

func (p *resultPrinter) begin() {
	if p.format == "" {
		p.line(fmt.Sprintf(row, "CHECK", "RESULT ", "TIME", "DETAIL"))
	}
}

// add prints a result as soon as it is there, unless all are printed as JSON.
func (p *resultPrinter) add(r selftest.Result) {
	switch p.format {
	case "":
	case formatter.JSONFormatKey:
		p.all = append(p.all, r)
		return
	default:
		p.err = errors.Join(p.err, p.listing().writeEach(p.out, r))
		return
	}
	word, colour, took := "ok     ", "32", seconds(r.Took)
	switch {
	case r.Skipped:
		word, colour, took = "skipped", "33", "" // nothing was done
	case !r.OK:
		word, colour = "FAILED ", "31"
	}
	if p.colour {
		word = "\x1b[" + colour + "m" + word + "\x1b[0m"
	}
	detail := r.Detail
	if r.Failed != "" {
		detail = ""
	}
	p.line(strings.TrimRight(fmt.Sprintf(row, r.Check, word, took, termsafe.Line(detail)), " "))
	p.indented(r.Failed)
	if r.Remedy != "" {
		p.indented("Hint: " + r.Remedy)
	}
}

// indented prints a long text below the line that it belongs to.
func (p *resultPrinter) indented(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRightFunc(termsafe.Strip(line), unicode.IsSpace); line != "" {
			p.line("    " + line)
		}
	}
}

func (p *resultPrinter) line(text string) {
	_, err := fmt.Fprintln(p.out, text)
	p.err = errors.Join(p.err, err)
}

// end prints what is left, and returns what went wrong with printing.
func (p *resultPrinter) end() error {
	if p.format != formatter.JSONFormatKey {
		return p.err
	}
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p.all)
}

func (p *resultPrinter) listing() listing[selftest.Result] {
	return listing[selftest.Result]{format: p.format, row: newResultRow}
}

// resultRow is a result for a template.
type resultRow struct {
	noHeader
	Check, Result, Time, Detail, Failed, Remedy string
}

func newResultRow(r selftest.Result) formatter.SubContext {
	row := &resultRow{
		Check: r.Check, Result: "ok", Time: seconds(r.Took),
		Detail: termsafe.Line(r.Detail), Failed: termsafe.Line(r.Failed), Remedy: termsafe.Line(r.Remedy),
	}
	switch {
	case r.Skipped:
		row.Result = "skipped"
	case !r.OK:
		row.Result = "failed"
	}
	return row
}

// seconds has as many digits as anybody wants to read.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
