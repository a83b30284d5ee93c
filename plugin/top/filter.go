package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// arrange lists the sandboxes of this client, or all, that match the filter.
func (m *Model) arrange() {
	shown := slices.DeleteFunc(slices.Clone(m.known), func(s manage.SandboxStatus) bool {
		return !m.all && s.OtherClient != "" || !m.matches(s)
	})
	m.rows = arrange(m.rows, shown, m.rank)
	if m.index() < 0 {
		m.selected = ""
		if len(m.rows) > 0 {
			m.selected = m.rows[0].Name
		}
	}
}

// matches reports whether what is shown of a sandbox contains the filter, in upper or lower case.
func (m *Model) matches(s manage.SandboxStatus) bool {
	doing, _ := activity(s, m.now())
	text := strings.Join([]string{scopeOf(s), s.Name, s.Agent, doing, taskOf(s)}, "\n")
	return strings.Contains(strings.ToLower(text), strings.ToLower(m.filter))
}

// editFilter edits the filter, which has an effect at once.
func (m *Model) editFilter(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "esc":
		m.mode = listing
		return m.filterBy("")
	case "enter":
		m.mode = listing
		return nil
	}
	return m.filterBy(edited(m.filter, key))
}

func (m *Model) filterBy(text string) tea.Cmd {
	if text == m.filter {
		return nil
	}
	m.filter = text
	m.arrange()
	return m.follow()
}

// rank orders sandboxes: those of other clients come last, problems that the user knows come after running loops.
func (m *Model) rank(s manage.SandboxStatus) int {
	rank := group(s)
	if m.acknowledged(s) {
		rank = group(manage.SandboxStatus{Activity: manage.Ended})
	}
	if s.OtherClient != "" {
		rank += math.MaxInt16
	}
	return rank
}

// others is the number of sandboxes that other clients have created.
func (m *Model) others() (n int) {
	for _, s := range m.known {
		if s.OtherClient != "" {
			n++
		}
	}
	return n
}

// need identifies why a sandbox waits for the user; empty if it does not.
func need(s manage.SandboxStatus) string {
	if !needsUser(s) {
		return ""
	}
	text := string(s.Activity)
	if s.Loop != nil {
		text += fmt.Sprint(" ", s.Loop.ID, s.Loop.Iteration, s.Loop.Running)
	}
	for _, q := range s.Questions {
		text += fmt.Sprintf(" %s %q", q.ID, q.Text)
	}
	return text
}

// acknowledged reports whether the user knows why a sandbox waits.
func (m *Model) acknowledged(s manage.SandboxStatus) bool {
	known, seen := m.seen[s.Name]
	return seen && known == need(s)
}

// acknowledge marks the need of a sandbox as known, or as new again.
func (m *Model) acknowledge(s manage.SandboxStatus) {
	switch n := need(s); {
	case n == "":
		m.message = "It does not need you"
		return
	case m.acknowledged(s):
		delete(m.seen, s.Name)
	default:
		m.seen[s.Name] = n
	}
	m.arrange()
}
