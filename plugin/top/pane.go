package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// keyHelp explains the keys.
const keyHelp = `
  ↑ ↓            select a sandbox
  enter          show its output on the whole screen, and back
  pgup pgdn      scroll the output
  a              attach to its background loop; detach with ctrl-p ctrl-q
  r              reply to the question of an agent
  s              stop it after the current run
  x              do not count it until something changes, and undo
  /              show only sandboxes that contain a text; esc shows all
  o              show or hide the sandboxes of other clients
  d              show commits with their changes (git log --patch)
  D              show uncommitted changes (git diff HEAD)
  q              quit; loops go on`

// pane is the lower part of the screen.
func (m *Model) pane(height int) []string {
	s, ok := m.current()
	switch {
	case m.mode == helping:
		return strings.Split(keyHelp, "\n")
	case !ok || height < 3:
		return nil
	case m.mode == answering && len(s.Questions) > 0:
		return m.question(s.Questions[0])
	}
	lines := []string{m.rule(s), m.details(s)}
	return append(lines, m.tail(height-len(lines))...)
}

// rule is the heading of the output.
func (m *Model) rule(s manage.SandboxStatus) string {
	text := "── " + s.Name + " "
	if l := s.Loop; l != nil {
		text += "── " + l.Command
		if l.Iteration > 0 {
			text += fmt.Sprintf(" #%d", l.Iteration)
		}
		if len(l.Tasks) > 0 {
			text += " " + strings.Join(l.Tasks, ", ")
		}
		text += " "
	}
	text = ansi.Truncate(text, m.width, "…")
	return m.paint(cyan, text+strings.Repeat("─", max(0, m.width-ansi.StringWidth(text))))
}

// details are figures of the selected sandbox, and what is wrong with it.
func (m *Model) details(s manage.SandboxStatus) string {
	var parts []string
	if s.OtherClient != "" {
		return "of another client, " + termsafe.Line(s.OtherClient)
	}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if l := s.Loop; l != nil {
		if text := l.Error; text != "" && !l.Running {
			parts = append(parts, m.paint(red, text))
		}
		if l.Text != "" {
			parts = append(parts, m.paint(yellow, l.Text))
		}
		if l.Running && l.LastOutput != nil {
			add("output %s ago", brief(m.now().Sub(*l.LastOutput)))
		}
		if c := l.Counts; c != nil {
			add("%d of %d tasks done", c.Done, c.Done+c.Left())
		}
		if t := l.Usage.Tokens; t != nil {
			add("%s tokens", amounts(t.Total(), l.Limits.MaxTokens))
		}
		if limit := l.Limits.MaxCostUSD; limit > 0 {
			add("limit $%.2f", limit)
		}
	}
	if n := len(s.Blocked); n > 0 {
		add("blocked: %s", termsafe.Line(s.Blocked[0].Target()))
		if n > 1 {
			parts[len(parts)-1] += fmt.Sprintf(" and %d more", n-1)
		}
	}
	if n := s.Unfetched; n != nil && *n > 0 {
		add("%d commits not fetched", *n)
	}
	return strings.Join(parts, " · ")
}

// tail is the end of the output, with long lines wrapped.
func (m *Model) tail(height int) []string {
	if len(m.lines) == 0 {
		return []string{m.paint(faint, "no output")}
	}
	end := max(0, len(m.lines)-m.back)
	var shown []string
	for i := end - 1; i >= 0 && len(shown) < height; i-- {
		wrapped := strings.Split(ansi.Wrap(m.lines[i], max(1, m.width), ""), "\n")
		shown = append(wrapped, shown...)
	}
	return shown[max(0, len(shown)-height):]
}

func (m *Model) question(q taskjson.OpenQuestion) []string {
	lines := []string{m.paint(cyan, "── "+termsafe.Line(q.ID+" "+q.Title)+" ──")}
	for line := range strings.SplitSeq(termsafe.Strip(q.Text), "\n") {
		lines = append(lines, strings.Split(ansi.Wordwrap(line, max(1, m.width), ""), "\n")...)
	}
	for i, choice := range q.Choices() {
		text := fmt.Sprintf("  %d. %s", i+1, termsafe.Line(choice))
		if choice == q.Default {
			text += " (default)"
		}
		lines = append(lines, text)
	}
	return append(lines, "", "Type a number or any text. Enter sends it, esc cancels.")
}

// bottom is the last line.
func (m *Model) bottom() string {
	switch {
	case m.mode == answering:
		return "Answer: " + ansi.TruncateLeft(m.typed, max(0, ansi.StringWidth(m.typed)-m.width+10), "…") + m.paint(mark, " ")
	case m.mode == filtering:
		return "Filter: " + ansi.TruncateLeft(m.filter, max(0, ansi.StringWidth(m.filter)-m.width+10), "…") + m.paint(mark, " ")
	case m.mode == stopping:
		return m.paint(bold, fmt.Sprintf("Stop %s after its current run? [y/N]", m.selected))
	case m.message != "":
		return m.paint(bold, m.message)
	case m.mode == helping:
		return m.paint(faint, "any key: back")
	case m.mode == reading:
		return m.paint(faint, "enter list  pgup/pgdn scroll  a attach  r reply  s stop  d diff  q quit")
	}
	return m.paint(faint, "↑↓ select  enter output  a attach  r reply  s stop  d diff  ? help  q quit")
}

// amounts are tokens, and their limit if there is one.
func amounts(n, limit int64) string {
	if limit > 0 {
		return amount(n) + " of " + amount(limit)
	}
	return amount(n)
}

func amount(n int64) string {
	return units.CustomSize("%.3g%s", float64(n), 1000, []string{"", "k", "M", "G", "T"})
}
