// Package top is the terminal dashboard of all sandboxes on this machine.
package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Backend is what the dashboard shows and runs.
type Backend struct {
	// Collect describes all sandboxes; with a warning, some may be missing.
	Collect func(context.Context) (list []manage.SandboxStatus, warning string, err error)
	// Ralph is a "docker ralph" command in a directory, empty for the current one.
	Ralph func(dir string, args ...string) *exec.Cmd
	// Log shows the commits of a worktree, Diff its uncommitted changes.
	Log, Diff func(dir string) (*exec.Cmd, error)
}

const (
	// collectInterval is how often sandboxes are described, outputInterval how often output is read.
	collectInterval = 2 * time.Second
	outputInterval  = 500 * time.Millisecond
)

// mode is what keys do.
type mode int

const (
	listing   mode = iota
	reading        // the output has the whole screen
	helping        // the keys are explained
	stopping       // a stop has to be confirmed
	answering      // an answer is typed
	filtering      // the filter is typed
)

// Model is the state of the dashboard. It implements [tea.Model].
type Model struct {
	ctx     context.Context
	backend Backend
	color   bool
	now     func() time.Time

	width, height int
	known         []manage.SandboxStatus // as last collected
	all           bool                   // rows include the sandboxes of others
	filter        string                 // what rows contain
	rows          []manage.SandboxStatus
	seen          map[string]string // acknowledged needs by the sandbox's name
	loaded        bool
	collecting    bool
	warning       string // of the last collection
	selected      string // name of a sandbox
	mode          mode
	message       string // result of the last action
	typed         string // answer

	output *output // nil without a selected sandbox
	lines  []string
	back   int // lines that the output is scrolled back
}

// New returns a dashboard.
func New(ctx context.Context, backend Backend, color bool) *Model {
	return &Model{ctx: ctx, backend: backend, color: color, now: time.Now, seen: map[string]string{}, width: 80, height: 24}
}

// collected are the sandboxes, printed the output of one.
type collected struct {
	list    []manage.SandboxStatus
	warning string
	err     error
}

type printed struct {
	from  *output
	lines []string
}

type (
	collectTick struct{}
	outputTick  struct{ from *output }
)

// acted is the result of a command.
type acted struct{ message string }

// Init implements [tea.Model].
func (m *Model) Init() tea.Cmd { return tea.Batch(m.collect(), tickCollect()) }

func tickCollect() tea.Cmd {
	return tea.Tick(collectInterval, func(time.Time) tea.Msg { return collectTick{} })
}

// collect describes the sandboxes, unless that is in progress.
func (m *Model) collect() tea.Cmd {
	if m.collecting {
		return nil
	}
	m.collecting = true
	return func() tea.Msg {
		list, warning, err := m.backend.Collect(m.ctx)
		return collected{list, warning, err}
	}
}

// next reads new output.
func (o *output) next() tea.Cmd { return func() tea.Msg { return printed{o, o.read()} } }

// Update implements [tea.Model].
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case collectTick:
		return m, tea.Batch(m.collect(), tickCollect())
	case collected:
		m.collecting = false
		return m, m.update(msg)
	case printed:
		return m, m.print(msg)
	case outputTick:
		if msg.from == m.output {
			return m, msg.from.next()
		}
		msg.from.close()
	case acted:
		m.message = msg.message
		return m, m.collect()
	}
	return m, nil
}

func (m *Model) print(msg printed) tea.Cmd {
	if msg.from != m.output {
		msg.from.close()
		return nil
	}
	if m.back > 0 { // stay at the same lines
		m.back += max(0, len(msg.lines)-len(m.lines))
	}
	m.lines = msg.lines
	return tea.Tick(outputInterval, func(time.Time) tea.Msg { return outputTick{msg.from} })
}

func (m *Model) update(msg collected) tea.Cmd {
	m.warning = msg.warning
	if msg.err != nil { // what was known stays
		m.warning = "Error: " + termsafe.Line(msg.err.Error())
		return nil
	}
	m.loaded, m.known = true, msg.list
	m.arrange()
	return m.follow()
}

// index is the index of the selected sandbox, or -1.
func (m *Model) index() int {
	return slices.IndexFunc(m.rows, func(s manage.SandboxStatus) bool { return s.Name == m.selected })
}

func (m *Model) current() (s manage.SandboxStatus, ok bool) {
	if i := m.index(); i >= 0 {
		return m.rows[i], true
	}
	return s, false
}

// follow shows the output of the selected sandbox's loop.
func (m *Model) follow() tea.Cmd {
	s, ok := m.current()
	if !ok {
		m.output, m.lines, m.back = nil, nil, 0
		return nil
	}
	next := outputOf(s)
	if o := m.output; o != nil && o.sandbox == next.sandbox && o.id == next.id {
		return nil
	}
	m.output, m.lines, m.back = next, nil, 0
	return next.next()
}

// press handles a key.
func (m *Model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	m.message = ""
	switch m.mode {
	case answering:
		return m.edit(key)
	case filtering:
		return m.editFilter(key)
	case stopping:
		m.mode = listing
		if name == "y" || name == "Y" {
			return m.stop()
		}
		return nil
	case helping:
		m.mode = listing
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.mode = helping
	case "enter", "l":
		m.mode = map[mode]mode{listing: reading, reading: listing}[m.mode]
	case "esc":
		m.mode, m.back = listing, 0
		return m.filterBy("")
	case "/":
		m.mode = filtering
	case "up", "k":
		return m.move(-1)
	case "down", "j":
		return m.move(1)
	case "o":
		m.all = !m.all
		m.arrange()
		return m.follow()
	case "pgup":
		m.back = max(0, min(m.back+m.outputHeight(), len(m.lines)-m.outputHeight()))
	case "pgdown":
		m.back = max(0, m.back-m.outputHeight())
	default:
		return m.act(name)
	}
	return nil
}

// move selects another sandbox.
func (m *Model) move(by int) tea.Cmd {
	if i := m.index() + by; i >= 0 && i < len(m.rows) {
		m.selected = m.rows[i].Name
		return m.follow()
	}
	return nil
}

// act starts an action with the selected sandbox.
func (m *Model) act(key string) tea.Cmd {
	s, ok := m.current()
	if !ok {
		return nil
	}
	if s.OtherClient != "" { // its worktree may be on another machine, too
		m.message = "It is of another client, " + termsafe.Line(s.OtherClient)
		return nil
	}
	switch key {
	case "a":
		return open("attach", m.backend.Ralph("", "attach", s.Name))
	case "d":
		return m.show("git log", s.Worktree, m.backend.Log)
	case "D":
		return m.show("git diff", s.Worktree, m.backend.Diff)
	case "s":
		m.mode = stopping
	case "x":
		m.acknowledge(s)
	case "r":
		if len(s.Questions) == 0 {
			m.message = "No open question"
			return nil
		}
		m.mode, m.typed = answering, ""
	}
	return nil
}

// open runs a command that has the terminal until it ends.
func open(what string, cmd *exec.Cmd) tea.Cmd {
	var errs bytes.Buffer
	cmd.Stderr = io.MultiWriter(os.Stderr, &errs)
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		if err == nil {
			return acted{}
		}
		return acted{result(what, errs.String(), err)}
	})
}

// show runs git at the terminal.
func (m *Model) show(what, dir string, command func(dir string) (*exec.Cmd, error)) tea.Cmd {
	cmd, err := command(dir)
	if err != nil {
		m.message = "Error: " + termsafe.Line(err.Error())
		return nil
	}
	return open(what, cmd)
}

// run runs a command in the background.
func run(what string, cmd *exec.Cmd) tea.Cmd {
	return func() tea.Msg {
		out, err := cmd.CombinedOutput()
		return acted{result(what, string(out), err)}
	}
}

// result is the last line of the output of a command, without hints, or its error.
func result(what, output string, err error) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Hint: ") })
	last := ""
	if len(lines) > 0 {
		last = termsafe.Line(lines[len(lines)-1])
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || last == "") {
		return fmt.Sprintf("%s: %v", what, err)
	}
	return last
}

func (m *Model) stop() tea.Cmd {
	s, ok := m.current()
	if !ok {
		return nil
	}
	m.message = "Stopping " + s.Name + " after the current run"
	return run("stop", m.backend.Ralph("", "stop", s.Name))
}

// edit edits and sends an answer.
func (m *Model) edit(key tea.KeyPressMsg) tea.Cmd {
	s, ok := m.current()
	if !ok || len(s.Questions) == 0 { // it was answered elsewhere
		m.mode = listing
		return nil
	}
	switch key.String() {
	case "esc":
		m.mode = listing
	case "enter":
		q := s.Questions[0]
		answer := q.Choose(strings.TrimSpace(m.typed))
		if answer == "" {
			return nil
		}
		m.mode, m.message = listing, "Answering "+termsafe.Line(q.ID)
		return run("answer", m.backend.Ralph(s.Worktree, "answer", "--", q.ID, answer))
	default:
		m.typed = edited(m.typed, key)
	}
	return nil
}

// edited returns a text after a key.
func edited(text string, key tea.KeyPressMsg) string {
	if key.String() != "backspace" {
		return text + termsafe.Line(key.Text)
	}
	typed := []rune(text)
	return string(typed[:max(0, len(typed)-1)])
}
