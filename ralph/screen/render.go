package screen

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// painter formats text for a terminal.
type painter struct {
	color bool
	width int
}

func (p painter) sgr(parameter, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + parameter + "m" + text + "\x1b[0m"
}

func (p painter) dim(text string) string    { return p.sgr("2", text) }
func (p painter) bold(text string) string   { return p.sgr("1", text) }
func (p painter) red(text string) string    { return p.sgr("31", text) }
func (p painter) green(text string) string  { return p.sgr("32", text) }
func (p painter) yellow(text string) string { return p.sgr("33", text) }

// highlight colors messages in complete lines.
func (p painter) highlight(text string) string {
	if !p.color || !strings.Contains(text, ": ") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch content := strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "Warning: "):
			line = p.yellow(content) + "\n"
		case strings.HasPrefix(line, "Error: "):
			line = p.red(content) + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// fit returns text as one line that fits the terminal after an indent.
func (p painter) fit(text string, indent int) string {
	return ansi.Truncate(termsafe.Line(text), p.width-1-indent, "…")
}

// Heading returns the heading of run n.
func (s *Screen) Heading(n int) string {
	p := s.paint()
	title := fmt.Sprintf("── Run %d ", n)
	return "\n" + p.bold(title+strings.Repeat("─", max(2, min(p.width, 80)-1-ansi.StringWidth(title)))) + "\n"
}

// Outcome returns the line of a run that succeeded, failed, or neither.
func (s *Screen) Outcome(line string, good, bad bool) string {
	switch p := s.paint(); {
	case bad:
		return p.red("✗ "+line) + "\n"
	case good:
		return p.green("✓ "+line) + "\n"
	default:
		return p.yellow("• "+line) + "\n"
	}
}

// Render returns the displayed form of an agent's events.
func (s *Screen) Render(events []event.Event) string {
	s.state.Lock()
	defer s.state.Unlock()
	p := s.paint()
	var b strings.Builder
	for _, e := range events {
		switch e := e.(type) {
		case event.Text:
			b.WriteString(s.state.tools.flush(p) + e.Text)
			s.state.tools.midLine = !strings.HasSuffix(e.Text, "\n") && e.Text != ""
		case event.Tool:
			b.WriteString(s.state.tools.freshLine())
			s.state.tools.start(e)
		case event.ToolResult:
			b.WriteString(s.state.tools.end(p, e))
		case event.Retry:
			b.WriteString(s.state.tools.freshLine() + p.yellow("↻ "+p.fit(e.Text, 2)) + "\n")
		case event.Result:
			b.WriteString(s.state.tools.flush(p) + s.state.tools.freshLine())
			if e.Failed {
				b.WriteString(p.red("✗ "+p.fit(cmp.Or(termsafe.FirstLine(e.Text), strings.TrimPrefix(e.Summary, "Done ")), 2)) + "\n")
			}
		}
	}
	return b.String()
}

// FreshLine ends the agent's output at the end of a run.
func (s *Screen) FreshLine() string {
	s.state.Lock()
	defer s.state.Unlock()
	return s.state.tools.flush(s.paint()) + s.state.tools.freshLine()
}
