package top

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

var noon = time.Date(2031, 2, 3, 12, 0, 0, 0, time.Local)

func ago(d time.Duration) *time.Time {
	at := noon.Add(-d)
	return &at
}

// sandbox is one of this repository with a loop.
func sandbox(branch string, a manage.Activity, l *manage.LoopStatus) manage.SandboxStatus {
	return manage.SandboxStatus{Name: "ralph-acme-shop-" + branch, Repo: "acme/shop", Branch: branch, State: "running", Activity: a, Worktree: "/src/" + branch, Loop: l}
}

func working(task, title string, since time.Duration, cost float64) *manage.LoopStatus {
	return &manage.LoopStatus{
		Command: "build", Running: true, Iteration: 3, Tasks: []string{task}, Title: title, Since: ago(2 * time.Hour), RunStarted: ago(since), LastOutput: ago(7 * time.Second),
		State: "working", StateSince: ago(since), Usage: runlog.Usage{Tokens: &event.Tokens{Input: 1_200_000, Output: 34_567}, CostUSD: &cost},
		Counts: &runlog.Counts{Open: 4, Active: 1, Done: 7}, Limits: runlog.Limits{MaxCostUSD: 20, MaxTokens: 5_000_000},
	}
}

// fleet are sandboxes in every activity.
func fleet() []manage.SandboxStatus {
	limited := working("pay/03", "Retry failed payments", 42*time.Minute, 11.2)
	limited.State, limited.StateSince, limited.Text = "rate_limited", ago(5*time.Minute), "5-hour limit reached"
	until := noon.Add(90 * time.Minute)
	limited.Until = &until
	retrying := working("search/01", "Index products", time.Minute, 0.4)
	retrying.State, retrying.StateSince, retrying.Text = "retrying", ago(20*time.Second), "529 overloaded, retry 3 of 10"
	six, zero, cost, two := 6, 0, 3.05, 2
	failed := &manage.LoopStatus{
		Command: "build", Iteration: 9, Tasks: []string{"mail/02"}, Title: "Send invoices", Since: ago(5 * time.Hour), Ended: ago(3 * time.Hour), Stop: "max_failures", ExitCode: &six,
		Error: "3 runs in a row failed: tests do not compile", Usage: runlog.Usage{CostUSD: &cost}, Counts: &runlog.Counts{Open: 2, Blocked: 1, Done: 5},
	}
	asks := sandbox("auth", manage.Working, working("auth/05", "Sessions", 12*time.Minute, 2.31))
	asks.Questions = []taskjson.OpenQuestion{{ID: "auth/04", Title: "Hash passwords", Question: taskjson.Question{
		Text: "Which hash should new passwords use?\nargon2id needs a new dependency.", Options: []string{"argon2id", "bcrypt"}, Default: "bcrypt",
	}}}
	busy := sandbox("main", manage.Working, working("cart/02", "Merge carts after login", 4*time.Minute, 2.31))
	busy.Blocked, busy.Unfetched = []denylog.Refusal{{Host: "example.com", Port: 443, Times: 3}, {Host: "x.example", Port: 443, Times: 1}}, &two
	return []manage.SandboxStatus{
		asks, busy, sandbox("docs", manage.Ended, &manage.LoopStatus{Command: "build", Ended: ago(50 * time.Minute), Stop: "complete", ExitCode: &zero, Tasks: []string{}}),
		sandbox("mail", manage.Failed, failed), sandbox("new", manage.Idle, nil), sandbox("pay", manage.RateLimited, limited), sandbox("search", manage.Retrying, retrying),
	}
}

// dashboard is one of a size that shows sandboxes.
func dashboard(width, height int, color bool, list ...manage.SandboxStatus) *Model {
	m := New(context.Background(), Backend{}, color) //nolint:forbidigo // nothing runs
	m.now = func() time.Time { return noon }
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(collected{list: list})
	return m
}

// output sets the output of the selected sandbox.
func (m *Model) withOutput(lines ...string) *Model {
	m.Update(printed{m.output, lines})
	return m
}

func press(m *Model, keys ...string) tea.Cmd {
	var cmd tea.Cmd
	for _, key := range keys {
		msg := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		if code, special := map[string]rune{
			"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
		}[key]; special {
			msg = tea.KeyPressMsg{Code: code}
		}
		_, cmd = m.Update(msg)
	}
	return cmd
}

var loopOutput = []string{
	"━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━", "Mode:   build", "Branch: main", "",
	"🔧 Read: internal/cart/cart.go", "   120 lines", "The guest's cart is dropped at login. I merge it into the user's, and keep the larger quantity of each product.",
	"🔧 Edit: internal/cart/merge.go", "🔧 Bash: go test ./internal/cart", "   ok  shop/internal/cart  0.412s", "✅ Done (success)", "Check: make test",
}

// assertFits asserts that a screen has the size of the terminal.
func assertFits(t *testing.T, m *Model) {
	t.Helper()
	lines := strings.Split(m.screen(), "\n")
	assert.Equal(t, len(lines), m.height, m.screen())
	for _, line := range lines {
		assert.Check(t, ansi.StringWidth(line) <= m.width, "%q", line)
	}
}

func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		for _, color := range []bool{false, true} {
			name := fmt.Sprintf("%dx%d", size[0], size[1])
			if color {
				name += "-color"
			}
			m := dashboard(size[0], size[1], color, fleet()...)
			press(m, "down", "down", "down", "down")
			m.withOutput(loopOutput...)
			assertFits(t, m)
			golden.Assert(t, m.screen()+"\n", name+".golden")
			assert.Equal(t, ansi.Strip(m.screen()) == m.screen(), !color)
		}
	}
	m := dashboard(80, 24, false, fleet()...)
	press(m, "r", "2")
	golden.Assert(t, m.screen()+"\n", "answer.golden")
	press(m, "esc", "down", "s")
	golden.Assert(t, m.screen()+"\n", "stop.golden")
	press(m, "n", "?")
	golden.Assert(t, m.screen()+"\n", "help.golden")
	press(m, "x", "enter")
	m.withOutput(loopOutput...)
	golden.Assert(t, m.screen()+"\n", "output.golden")
	golden.Assert(t, dashboard(80, 24, false).screen()+"\n", "empty.golden")
}

// Terminals of any size show at least the first problem.
func TestSmallTerminals(t *testing.T) {
	for width := 20; width < 140; width += 7 {
		for height := 4; height < 50; height += 3 {
			m := dashboard(width, height, true, fleet()...).withOutput(loopOutput...)
			assertFits(t, m)
			assert.Check(t, is.Contains(m.screen(), "> "))
			for _, key := range []string{"?", "x", "enter", "enter", "r"} {
				press(m, key)
				assertFits(t, m)
			}
		}
	}
}

func names(m *Model) (all []string) {
	for _, s := range m.rows {
		all = append(all, s.Branch)
	}
	return all
}

// A row moves only when its group changes, then to the end of the new one, and stays selected.
func TestOrderIsStable(t *testing.T) {
	list := fleet()
	m := dashboard(80, 24, false, list...)
	assert.DeepEqual(t, names(m), []string{"auth", "mail", "search", "pay", "main", "docs", "new"})
	press(m, "down", "down", "down", "down")
	assert.Equal(t, m.selected, "ralph-acme-shop-main")

	extra := sandbox("aaa", manage.Working, working("a", "A", time.Second, 0))
	m.Update(collected{list: append([]manage.SandboxStatus{extra}, list...)})
	assert.DeepEqual(t, names(m), []string{"auth", "mail", "search", "pay", "main", "aaa", "docs", "new"})
	list[1].Activity = manage.Checking // of the same group
	m.Update(collected{list: append([]manage.SandboxStatus{extra}, list...)})
	assert.DeepEqual(t, names(m), []string{"auth", "mail", "search", "pay", "main", "aaa", "docs", "new"})
	list[1].Activity = manage.Failed
	m.Update(collected{list: append([]manage.SandboxStatus{extra}, list...)})
	assert.DeepEqual(t, names(m), []string{"auth", "mail", "main", "search", "pay", "aaa", "docs", "new"})
	list[1].Activity = manage.Working
	m.Update(collected{list: append([]manage.SandboxStatus{extra}, list...)})
	assert.DeepEqual(t, names(m), []string{"auth", "mail", "search", "pay", "aaa", "main", "docs", "new"})
	assert.Equal(t, m.selected, "ralph-acme-shop-main")

	m.Update(collected{list: list[2:3]})
	assert.Equal(t, m.selected, "ralph-acme-shop-docs", "the selected one was removed")
	m.Update(collected{err: errors.New("the engine does not answer")})
	assert.DeepEqual(t, names(m), []string{"docs"})
	assert.Check(t, is.Contains(m.screen(), "Error: the engine does not answer"))
}

func TestTitleCountsWhatNeedsTheUser(t *testing.T) {
	assert.Equal(t, dashboard(80, 24, false, fleet()...).View().WindowTitle, "(2) docker ralph top")
	assert.Equal(t, dashboard(80, 24, false).View().WindowTitle, "docker ralph top")
}

// commands records the commands of a dashboard, which print a line and exit.
func commands(m *Model, script string) *[]string {
	var all []string
	command := func(program string) func(dir string, args ...string) *exec.Cmd {
		return func(dir string, args ...string) *exec.Cmd {
			all = append(all, dir+" "+program+" "+strings.Join(args, " "))
			return exec.Command("sh", "-c", script)
		}
	}
	git := func(name string) func(string) (*exec.Cmd, error) {
		return func(dir string) (*exec.Cmd, error) { return command("git")(dir, name), nil }
	}
	m.backend = Backend{Ralph: command("ralph"), Log: git("log"), Diff: git("diff"), Collect: func(context.Context) ([]manage.SandboxStatus, string, error) {
		return fleet(), "", nil
	}}
	return &all
}

func TestKeysRunCommands(t *testing.T) {
	m := dashboard(80, 24, false, fleet()...)
	ran := commands(m, "echo 'answered auth/04: bcrypt'; echo 'Hint: x'")
	press(m, "r")
	m.Update(press(m, "2", "enter")())
	assert.Check(t, is.Contains(m.screen(), "answered auth/04: bcrypt"))
	press(m, "r", "enter")
	press(m, "r", "a", "b", "backspace", "-", "enter")
	press(m, "r", "x", "esc", "a")
	press(m, "d", "D", "s", "n", "s", "y", "down", "r")
	assert.Check(t, is.Contains(m.screen(), "No open question"))
	assert.DeepEqual(t, *ran, []string{
		"/src/auth ralph answer -- auth/04 bcrypt", "/src/auth ralph answer -- auth/04 bcrypt", "/src/auth ralph answer -- auth/04 a-",
		" ralph attach ralph-acme-shop-auth", "/src/auth git log", "/src/auth git diff", " ralph stop ralph-acme-shop-auth",
	})
	commands(m, "echo 'Error: no such task' >&2; exit 1")
	press(m, "up", "r")
	m.Update(press(m, "2", "enter")())
	assert.Check(t, is.Contains(m.screen(), "Error: no such task"))
	assert.Assert(t, press(m, "q") != nil)
}

func TestOutputFollowsTheSelection(t *testing.T) {
	logs := t.TempDir()
	log, err := runlog.Create(logs, runlog.Loop{Mode: "build", Started: noon})
	assert.NilError(t, err)
	out := log.Output(1)
	_, _ = out.Write([]byte("first\x1b[2J\tline\n"))
	s := sandbox("main", manage.Working, working("a", "A", time.Minute, 1))
	s.Logs, s.Loop.ID = logs, log.Loop.ID
	m := dashboard(80, 24, false, sandbox("new", manage.Unknown, nil), s)
	assert.Check(t, is.Contains(m.screen(), "no output"))
	read := press(m, "down")
	m.Update(read())
	assert.Check(t, is.Contains(m.screen(), "first    line"))
	_, _ = out.Write([]byte(strings.Repeat("more\n", 100) + "last\n"))
	m.Update(m.output.next()())
	assert.Check(t, is.Contains(m.screen(), "last"))
	assert.Check(t, !strings.Contains(m.screen(), "first"))
	press(m, "pgup")
	assert.Check(t, !strings.Contains(m.screen(), "last"))
	_, _ = out.Write([]byte("later\n"))
	before := m.screen()
	m.Update(m.output.next()())
	assert.Equal(t, m.screen(), before, "scrolled back, it does not move")
	press(m, "pgdown", "pgdown")
	assert.Check(t, is.Contains(m.screen(), "later"))

	old := m.output
	press(m, "up")
	m.Update(printed{old, []string{"of the other"}})
	assert.Check(t, !strings.Contains(m.screen(), "of the other"))
	assert.Assert(t, old.log == nil, "it is closed")
}

// shared are sandboxes on an engine that other clients use, too.
func shared() []manage.SandboxStatus {
	gone := manage.SandboxStatus{Name: "gone", Worktree: "/removed", Gone: true, Activity: manage.Idle}
	failed := sandbox("mine", manage.Failed, &manage.LoopStatus{ID: "1"})
	theirs := fleet()[0]
	theirs.OtherClient = "una@laptop"
	return []manage.SandboxStatus{theirs, {Name: "theirs-failed", Worktree: "/src", Activity: manage.Failed, OtherClient: "una@laptop"}, gone, failed}
}

func listed(m *Model) (all []string) {
	for _, s := range m.rows {
		all = append(all, s.Name)
	}
	return all
}

// What other clients have created is hidden, comes last, is not counted, and nothing is done with it.
func TestSandboxesOfOtherClients(t *testing.T) {
	m := dashboard(80, 24, false, shared()...)
	mine := []string{"ralph-acme-shop-mine", "gone"}
	assert.DeepEqual(t, listed(m), mine)
	assert.Check(t, is.Contains(m.screen(), "2 sandboxes, 1 needs you, 2 of other clients hidden"))
	press(m, "o")
	assert.DeepEqual(t, listed(m), append(mine, "ralph-acme-shop-auth", "theirs-failed"))
	assert.Check(t, is.Contains(m.screen(), "4 sandboxes, 1 needs you\n"))
	press(m, "down", "down")
	for _, key := range []string{"s", "r", "a", "d", "D", "x"} {
		press(m, "up")
		press(m, "down")
		assert.Check(t, !strings.Contains(m.screen(), "It is of another client"))
		press(m, key)
		assert.Equal(t, m.mode, listing)
		assert.Check(t, is.Contains(m.screen(), "It is of another client, una@laptop"))
	}
	assert.Check(t, is.Contains(m.screen(), "of another client  "), "its activity is unknown")
	press(m, "o")
	assert.DeepEqual(t, listed(m), mine)
	assert.Equal(t, m.selected, mine[0])
	press(m, "s")
	assert.Equal(t, m.mode, stopping)

	assert.Check(t, is.Contains(dashboard(80, 24, false, shared()[:2]...).screen(), "No sandboxes of yours: press o"))
}

// What the user has acknowledged is not counted until it changes.
func TestAcknowledge(t *testing.T) {
	list := fleet()
	m := dashboard(80, 24, false, list...)
	press(m, "x")
	assert.Equal(t, m.waiting(), 1)
	assert.DeepEqual(t, names(m), []string{"mail", "search", "pay", "main", "auth", "docs", "new"})
	assert.Equal(t, m.selected, "ralph-acme-shop-auth")
	m.Update(collected{list: list})
	assert.Equal(t, m.waiting(), 1)
	press(m, "x")
	assert.Equal(t, m.waiting(), 2)
	press(m, "x")

	changed := list[0].Questions[0]
	changed.Text = "Which one, then?"
	list[0].Questions = []taskjson.OpenQuestion{changed}
	m.Update(collected{list: list})
	assert.Equal(t, m.waiting(), 2, "another question")
	press(m, "down", "down", "down", "x")
	assert.Check(t, is.Contains(m.screen(), "It does not need you"))
}

func TestFilter(t *testing.T) {
	m := dashboard(80, 24, false, fleet()...)
	all := names(m)
	press(m, "/", "A", "u", "x", "backspace")
	assert.DeepEqual(t, names(m), []string{"auth"})
	assert.Check(t, is.Contains(m.screen(), `1 sandbox with "Au"`))
	assert.Check(t, is.Contains(m.screen(), "Filter: Au"))
	press(m, "enter")
	assert.Equal(t, m.mode, listing)
	assert.Equal(t, m.selected, "ralph-acme-shop-auth")
	press(m, "/", "?", "?")
	assert.Check(t, is.Contains(m.screen(), "Nothing matches: press esc to show all"))
	press(m, "esc")
	assert.DeepEqual(t, names(m), all)
	press(m, "/", "m", "a", "i", "enter", "esc")
	assert.DeepEqual(t, names(m), all)
	assert.Equal(t, m.filter, "")
}
