package top

import (
	"fmt"
	"math"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// arrange lists the sandboxes of this client, or all.
func (m *Model) arrange() {
	shown := slices.Clone(m.known)
	if !m.all {
		shown = slices.DeleteFunc(shown, func(s manage.SandboxStatus) bool { return s.OtherClient != "" })
	}
	m.rows = arrange(m.rows, shown, m.rank)
	if m.index() < 0 {
		m.selected = ""
		if len(m.rows) > 0 {
			m.selected = m.rows[0].Name
		}
	}
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
