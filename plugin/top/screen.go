package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// View implements [tea.Model].
func (m *Model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	v.WindowTitle = "docker ralph top"
	if n := m.waiting(); n > 0 {
		v.WindowTitle = fmt.Sprintf("(%d) %s", n, v.WindowTitle)
	}
	return v
}

// waiting is the number of this client's sandboxes that wait for the user.
func (m *Model) waiting() (n int) {
	for _, s := range m.rows {
		if needsUser(s) && s.OtherClient == "" && !m.acknowledged(s) {
			n++
		}
	}
	return n
}

// Colors are SGR parameters.
const (
	bold   = "1"
	faint  = "2"
	mark   = "7" // reverse
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (m *Model) paint(sgr, text string) string {
	if !m.color || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[m"
}

// cell is a text of exactly that width.
func cell(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// cellEnd is like cell, and keeps the end of a long text.
func cellEnd(text string, width int) string {
	if over := ansi.StringWidth(text) - width; over > 0 {
		text = ansi.TruncateLeft(text, over+1, "…")
	}
	return cell(text, width)
}

// listHeight is the number of sandboxes on the screen.
func (m *Model) listHeight() int {
	space := m.height - 3 // title, headings and keys
	if space >= 8 {
		space = max(3, space*2/5) // the rest is output
	}
	return max(1, min(space, max(1, len(m.rows))))
}

// outputHeight is the number of lines of output on the screen.
func (m *Model) outputHeight() int {
	above := 3 + m.listHeight() + 1 // title, headings, details; keys
	if m.mode == reading {
		above = 3
	}
	return max(0, m.height-above-1)
}

// screen has as many lines as the terminal.
func (m *Model) screen() string {
	var lines []string
	if m.mode != reading {
		lines = append(lines, m.title())
		lines = append(lines, m.list()...)
	}
	lines = append(lines, m.pane(max(0, m.height-1-len(lines)))...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), m.height-1))], m.bottom())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *Model) title() string {
	text := fmt.Sprintf("%d sandboxes", len(m.rows))
	if len(m.rows) == 1 {
		text = "1 sandbox"
	}
	if m.filter != "" {
		text += fmt.Sprintf(" with %q", termsafe.Line(m.filter))
	}
	switch n := m.waiting(); {
	case !m.loaded:
		text = "loading…"
	case n == 1:
		text += ", " + m.paint(red, "1 needs you")
	case n > 1:
		text += ", " + m.paint(red, fmt.Sprintf("%d need you", n))
	}
	if n := m.others(); n > 0 && !m.all {
		text += fmt.Sprintf(", %d of other clients hidden", n)
	}
	line := m.paint(bold, "docker ralph top") + "  " + text
	if m.warning != "" {
		line += "  " + m.paint(yellow, termsafe.Line(m.warning))
	}
	return line
}

// widths of columns; the scope and the task share the rest.
const (
	activityWidth = 20
	leftWidth     = 4
	costWidth     = 9
	gap           = 2
)

// columns returns the widths of scope and task, and whether there is room for the figures.
func (m *Model) columns() (scope, task int, figures bool) {
	rest := m.width - 2 - activityWidth - gap
	figures = rest >= 34+leftWidth+costWidth+2*gap
	if figures {
		rest -= leftWidth + costWidth + 2*gap
	}
	widest := 10
	for _, s := range m.rows {
		widest = max(widest, ansi.StringWidth(scopeOf(s)))
	}
	scope = min(widest, max(8, rest*3/5))
	return scope, max(0, rest-scope-gap), figures
}

func scopeOf(s manage.SandboxStatus) string { return termsafe.Line(s.Repo + ":" + s.Branch) }

func (m *Model) list() []string {
	scope, task, figures := m.columns()
	space := strings.Repeat(" ", gap)
	heading := "  " + cell("SANDBOX", scope) + space + cell("ACTIVITY", activityWidth) + space + cell("TASK", task)
	if figures {
		heading += space + fmt.Sprintf("%*s%s%*s", leftWidth, "LEFT", space, costWidth, "COST")
	}
	lines := []string{m.paint(faint, heading)}
	if len(m.rows) == 0 && m.loaded {
		text := `  No sandboxes: start a loop with "docker ralph build"`
		if m.filter != "" {
			text = "  Nothing matches: press esc to show all"
		} else if m.others() > 0 {
			text = "  No sandboxes of yours: press o to show those of other clients"
		}
		return append(lines, text)
	}
	height := m.listHeight()
	first := max(0, min(m.index()-height/2, len(m.rows)-height))
	for _, s := range m.rows[first:min(len(m.rows), first+height)] {
		lines = append(lines, m.row(s, scope, task, figures))
	}
	return lines
}

func (m *Model) row(s manage.SandboxStatus, scope, task int, figures bool) string {
	text, color := activity(s, m.now())
	if m.acknowledged(s) {
		color = faint
	}
	space := strings.Repeat(" ", gap)
	name, doing := cellEnd(scopeOf(s), scope), cell(text, activityWidth)
	rest := space + cell(taskOf(s), task)
	if figures {
		left, cost := "", ""
		if l := s.Loop; l != nil && l.Counts != nil {
			left = fmt.Sprint(l.Counts.Left())
		}
		if l := s.Loop; l != nil && l.Usage.CostUSD != nil {
			cost = fmt.Sprintf("$%.2f", *l.Usage.CostUSD)
		}
		rest += space + fmt.Sprintf("%*s%s%*s", leftWidth, left, space, costWidth, cost)
	}
	if s.Name == m.selected {
		return m.paint(mark, "> "+name+space+doing+rest)
	}
	return "  " + name + space + m.paint(color, doing) + rest
}

func taskOf(s manage.SandboxStatus) string {
	l := s.Loop
	switch {
	case len(s.Questions) > 0:
		return termsafe.Line(s.Questions[0].ID + ": " + s.Questions[0].Text)
	case l == nil:
		return ""
	case l.Title != "":
		return l.Title
	}
	return strings.Join(l.Tasks, ", ")
}

// activity is the activity in a word or two, and its color.
func activity(s manage.SandboxStatus, now time.Time) (text, color string) {
	l := s.Loop
	if s.OtherClient != "" {
		return "of another client", faint
	}
	if len(s.Questions) > 0 {
		return "needs an answer", red
	}
	text = strings.ReplaceAll(string(s.Activity), "_", " ")
	if l == nil {
		l = &manage.LoopStatus{}
	}
	var since *time.Time
	switch s.Activity {
	case manage.Failed:
		color = red
		if l.ExitCode != nil {
			text += fmt.Sprintf(" (%d)", *l.ExitCode)
		}
		since = l.Ended
	case manage.RateLimited, manage.Retrying:
		if since, color = l.StateSince, yellow; l.Until != nil {
			return text + " " + l.Until.Local().Format("15:04"), color
		}
	case manage.Unknown, manage.Paused:
		color = yellow
	case manage.Working, manage.Checking, manage.Waiting:
		since, color = l.Since, green
		if l.RunStarted != nil {
			since = l.RunStarted
		}
	case manage.Ended:
		since, color = l.Ended, faint
	default:
		color = faint
	}
	if since != nil {
		text += " " + brief(now.Sub(*since))
	}
	return text, color
}

// brief is a duration in a few characters.
func brief(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
