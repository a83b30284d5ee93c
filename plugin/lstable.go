package plugin

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/mattn/go-runewidth"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// column is a column of the table of sandboxes.
type column struct {
	template string
	heading  string
	min      int // width to which it can be truncated; 0 for never
	keepEnd  bool
	optional bool // left out if the table is too wide otherwise
	cell     func(*sandboxRow) *string
}

// sandboxColumns are the default columns. The first ones are the most important.
func sandboxColumns(size, engine bool) []column {
	all := []column{
		{template: "{{.Name}}{{if .Current}}" + currentMark + "{{end}}", heading: formatter.NameHeader, min: 24, cell: func(r *sandboxRow) *string { return &r.Name }},
		{template: "{{.Scope}}", heading: "SCOPE", min: 16, keepEnd: true, optional: true, cell: func(r *sandboxRow) *string { return &r.Scope }},
		{template: "{{.Driver}}", heading: "DRIVER", optional: true, cell: func(r *sandboxRow) *string { return &r.Driver }},
		{template: "{{.Engine}}", heading: "ENGINE", min: 8, optional: true, cell: func(r *sandboxRow) *string { return &r.Engine }},
		{template: "{{.Agent}}", heading: "AGENT", min: 8, optional: true, cell: func(r *sandboxRow) *string { return &r.Agent }},
		{template: "{{.State}}", heading: "STATE", cell: func(r *sandboxRow) *string { return &r.State }},
		{template: "{{.Loop}}", heading: "LOOP", min: 30, cell: func(r *sandboxRow) *string { return &r.Loop }},
		{template: "{{.Worktree}}", heading: "WORKTREE", min: 16, keepEnd: true, optional: true, cell: func(r *sandboxRow) *string { return &r.Worktree }},
		{template: "{{.Image}}", heading: "IMAGE", min: 12, keepEnd: true, optional: true, cell: func(r *sandboxRow) *string { return &r.Image }},
	}
	if !engine {
		all = slices.DeleteFunc(all, func(c column) bool { return c.heading == "ENGINE" })
	}
	if size {
		all = append(all, column{template: "{{.Size}}", heading: formatter.SizeHeader, cell: func(r *sandboxRow) *string { return &r.Size }})
	}
	return all
}

// severalEngines reports whether sandboxes are on more than one engine, or on another machine.
func severalEngines(list []manage.SandboxStatus) bool {
	first := ""
	for _, s := range list {
		if s.Remote || s.Engine != "" && first != "" && s.Engine != first {
			return true
		}
		first = cmp.Or(first, s.Engine)
	}
	return false
}

const currentMark = " (current)"

func tableFormat(columns []column) string {
	templates := make([]string, len(columns))
	for i, c := range columns {
		templates[i] = c.template
	}
	return "table " + strings.Join(templates, `\t`)
}

// writeSandboxTable writes the table for a terminal of a width, 0 for any.
func writeSandboxTable(out io.Writer, size bool, list []manage.SandboxStatus, width int) error {
	columns, rows := fit(size, list, width)
	next := 0
	row := func(manage.SandboxStatus) formatter.SubContext { next++; return rows[next-1] }
	var table bytes.Buffer
	l := listing[manage.SandboxStatus]{formatter.TableFormatKey, tableFormat(columns), sandboxHeadings(), row}
	if err := l.write(&table, list); err != nil {
		return err
	}
	text := table.String()
	if os.Getenv("NO_COLOR") == "" {
		text = coloured(text, list)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// fit returns columns that fit, and their rows: cells are truncated, then columns left out, from
// the right. Names come last, because other commands need them.
func fit(size bool, list []manage.SandboxStatus, width int) (columns []column, rows []*sandboxRow) {
	for columns = sandboxColumns(size, severalEngines(list)); ; {
		rows = rows[:0]
		for _, s := range list {
			rows = append(rows, newSandboxRow(s, time.Now()))
		}
		if width == 0 {
			return columns, rows
		}
		optional := lastOptional(columns)
		for i := len(columns) - 1; i > 0 || i == 0 && optional < 0; i-- {
			columns[i].truncate(rows, tableWidth(columns, rows)-width)
		}
		if optional < 0 || tableWidth(columns, rows) <= width {
			return columns, rows
		}
		columns = slices.Delete(columns, optional, optional+1)
	}
}

// lastOptional returns the index of the last column that can be left out, or -1.
func lastOptional(columns []column) int {
	for i, c := range slices.Backward(columns) {
		if c.optional {
			return i
		}
	}
	return -1
}

// minCell and padding are those of the Docker CLI's tables.
const (
	minCell = 10
	padding = 3
)

func tableWidth(columns []column, rows []*sandboxRow) int {
	sum := 0
	for i, c := range columns {
		if w := c.width(rows); i < len(columns)-1 {
			sum += max(minCell, w+padding)
		} else {
			sum += w
		}
	}
	return sum
}

func (c column) width(rows []*sandboxRow) int {
	widest := runewidth.StringWidth(c.heading)
	for _, r := range rows {
		widest = max(widest, runewidth.StringWidth(*c.cell(r))+c.mark(r))
	}
	return widest
}

// mark is the width of what the template adds to a cell.
func (c column) mark(r *sandboxRow) int {
	if r.Current && c.heading == formatter.NameHeader {
		return len(currentMark)
	}
	return 0
}

// truncate makes a column narrower by at most a number of columns.
func (c column) truncate(rows []*sandboxRow, by int) {
	before := c.width(rows)
	to := max(before-by, c.min, len(c.heading))
	if c.min == 0 || to >= before {
		return
	}
	for _, r := range rows {
		cell, room := c.cell(r), max(1, to-c.mark(r))
		over := runewidth.StringWidth(*cell) - room
		switch {
		case over > 0 && c.keepEnd:
			*cell = runewidth.TruncateLeft(*cell, over+1, "…")
		case over > 0:
			*cell = runewidth.Truncate(*cell, room, "…")
		}
	}
}
