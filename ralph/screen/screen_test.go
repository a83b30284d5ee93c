package screen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/internal/testutil/screentest"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// newScreen returns a screen without a terminal and what it has sent.
func newScreen(width *int, color bool) (*Screen, *bytes.Buffer) {
	var sent bytes.Buffer
	s := &Screen{
		out: termsafe.NewWriter(&sent), mode: "build", color: color, done: make(chan struct{}),
		width: func() int { return *width },
	}
	return s, &sent
}

func say(t *testing.T, s *Screen, text string) {
	t.Helper()
	_, err := s.Write([]byte(text))
	assert.NilError(t, err)
}

// drawn is what a terminal shows after the host has filtered what was sent.
func drawn(sent *bytes.Buffer) string {
	return screentest.Render(strings.ReplaceAll(sent.String(), "\n", "\r\n"))
}

var cost = 0.3149

func working() runlog.Now {
	return runlog.Now{
		N: 2, Tasks: []string{"auth/02"}, Title: "Log in with a cookie", Started: time.Now().Add(-90 * time.Second), State: runlog.StateWorking,
		Loop: runlog.Usage{Tokens: &event.Tokens{Input: 81204}, CostUSD: &cost}, Counts: runlog.Counts{Open: 3, Active: 1, Done: 2},
	}
}

func run(t *testing.T, s *Screen, sent *bytes.Buffer) {
	t.Helper()
	say(t, s, "ralph build: claude on branch main\n")
	s.SetNow(working())
	say(t, s, s.Heading(2))
	for _, events := range [][]event.Event{
		{event.Text{Text: "I look at the tests"}},
		{event.Text{Text: " first."}, event.Tool{ID: "1", Name: "Bash", Detail: "\n   $ go test ./..."}, event.Tool{ID: "2", Name: "Read", Detail: " login.go"}},
		{event.ToolResult{ID: "2", Text: "package login\n\nfunc Login() {}\n"}},
		{event.ToolResult{ID: "1", Failed: true, Text: "--- FAIL: TestLogin\n    got 1, want 2\nFAIL"}},
		{event.Tool{ID: "3", Name: "Edit", Detail: " login.go\n   - func Login() {}\n   + func Login() error {\n   + }\n"}},
		{event.ToolResult{ID: "3", Text: "The file has been updated."}},
		{event.Retry{Text: "request failed (529 overloaded), retry 1 of 10 in 2s"}},
		{event.Tool{Name: "Glob", Detail: " **/*.go " + strings.Repeat("x", 200)}, event.Text{Text: "Done.\n"}},
		{event.Result{Summary: "Done (success) | cost: $0.31 | turns: 9"}},
	} {
		say(t, s, s.Render(events))
	}
	say(t, s, s.FreshLine())
	say(t, s, "Warning: a change is not committed\n")
	say(t, s, s.Outcome("Iteration 2: done auth/02 | 1m30s", true, false))
	assert.Check(t, cmp.Contains(drawn(sent), "task 3 of 6"))
}

func TestScreen(t *testing.T) {
	for _, width := range []int{80, 40} {
		for _, color := range []bool{false, true} {
			name := fmt.Sprintf("screen-%d", width)
			s, sent := newScreen(&width, color)
			run(t, s, sent)
			golden.Assert(t, drawn(sent), name+".golden")
			assert.Equal(t, strings.Contains(sent.String(), "\x1b[31m"), color, "colors")
			s.Close()
			assert.Check(t, !strings.Contains(drawn(sent), "task 3 of 6"), "the status line is removed")
			say(t, s, "no newline")
			assert.Check(t, cmp.Contains(drawn(sent), "no newline"))
		}
	}
}

func TestStatusLineFits(t *testing.T) {
	t.Parallel()
	width := 0
	s, _ := newScreen(&width, false)
	for width = minWidth; width < 200; width++ {
		for _, state := range []runlog.LoopState{runlog.StateWorking, runlog.StateRateLimited, runlog.StateRetrying, runlog.StateChecking, runlog.StateWaiting} {
			s.now = working()
			s.now.State, s.now.Text, s.now.Until = state, "日本語 "+strings.Repeat("long ", 50), time.Now().Add(time.Hour)
			line := s.status(width-1, time.Now())
			assert.Assert(t, ansi.StringWidth(line) < width, "%d: %q", width, line)
			assert.Assert(t, line != "")
		}
	}
}

func TestStatusLineShowsWhatTheLoopWaitsFor(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		set  func(*runlog.Now)
		want string
	}{
		{func(*runlog.Now) {}, "build · task 3 of 6 · auth/02 Log in with a cookie · 1m30s · 81,204 tokens · $0.31 · working"},
		{func(n *runlog.Now) { n.Limits.MaxCostUSD, n.Tasks = 5, nil }, "build · task 3 of 6 · 1m30s · 81,204 tokens · $0.31 of $5.00 · working"},
		{func(n *runlog.Now) { n.LastOutput = at.Add(-time.Minute) }, "(silent for 1m0s)"},
		{func(n *runlog.Now) { n.State, n.Text = runlog.StateChecking, "make test" }, "check: make test"},
		{func(n *runlog.Now) { n.State, n.Until = runlog.StateRateLimited, at.Add(12*time.Minute) }, "rate limit, 12m0s left"},
		{func(n *runlog.Now) { n.State, n.Until = runlog.StateWaiting, at.Add(time.Minute) }, "waiting for other loops, 1m0s left"},
		{func(n *runlog.Now) { n.State, n.Text = runlog.StateWaiting, "the host is away" }, "· the host is away"},
		{func(n *runlog.Now) { n.State, n.Text = runlog.StateRetrying, "retry 2 of 10" }, "retry 2 of 10"},
	} {
		width := 200
		s, _ := newScreen(&width, false)
		s.now = working()
		s.now.Started = at.Add(-90 * time.Second)
		tc.set(&s.now)
		assert.Check(t, cmp.Contains(s.status(199, at), tc.want))
	}
}

// A call that was shown without a result is shown again only if it fails.
func TestLateToolResults(t *testing.T) {
	t.Parallel()
	width := 80
	s, _ := newScreen(&width, false)
	call := func(id string) event.Event { return event.Tool{ID: id, Name: "Bash", Detail: "\n   $ make " + id} }
	got := s.Render([]event.Event{call("a"), call("b"), event.Text{Text: "meanwhile\n"}})
	assert.Equal(t, got, "• Bash make a\n• Bash make b\nmeanwhile\n")
	assert.Equal(t, s.Render([]event.Event{event.ToolResult{ID: "a"}}), "")
	assert.Equal(t, s.Render([]event.Event{event.ToolResult{ID: "b", Failed: true, Text: "exit 2"}}), "✗ Bash make b\n    exit 2\n")
	assert.Equal(t, s.Render([]event.Event{event.Result{Failed: true, Summary: "Done (error) | cost: $0"}}), "✗ (error) | cost: $0\n")
	assert.Equal(t, s.Render([]event.Event{event.Result{Failed: true, Summary: "Done (error)", Text: "No credit\nat all"}}), "✗ No credit…\n")
}

// Many agents do not end the last line of a message.
func TestIncompleteLinesAreShown(t *testing.T) {
	t.Parallel()
	width := 80
	s, sent := newScreen(&width, false)
	say(t, s, s.Render([]event.Event{event.Text{Text: "Thinking"}}))
	assert.Equal(t, sent.String(), "")
	s.endPartialLine()
	assert.Equal(t, sent.String(), "")
	s.written = s.written.Add(-partialTimeout)
	s.endPartialLine()
	assert.Equal(t, sent.String(), "Thinking\n")
	say(t, s, s.Render([]event.Event{event.Text{Text: "done"}, event.Tool{Name: "Bash"}}))
	assert.Equal(t, sent.String(), "Thinking\ndone\n", "a tool call ends the line")
}

// stopped is a terminal that does not accept output, as after Ctrl+S.
type stopped struct{ writing, release chan struct{} }

func (w stopped) Write(p []byte) (int, error) {
	w.writing <- struct{}{}
	<-w.release
	return len(p), nil
}

func TestBlockedTerminalBlocksNothingElse(t *testing.T) {
	t.Parallel()
	width := 80
	s, _ := newScreen(&width, false)
	out := stopped{make(chan struct{}), make(chan struct{})}
	s.out = out
	written := make(chan error)
	go func() {
		_, err := s.Write([]byte("text\n"))
		written <- err
	}()
	<-out.writing
	s.SetNow(working())
	assert.Equal(t, s.Render([]event.Event{event.Text{Text: "more\n"}}), "more\n")
	assert.Check(t, s.Heading(2)+s.FreshLine() != "")
	close(out.release)
	assert.NilError(t, <-written)
}

func TestNoScreenWithoutATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, errors.Join(r.Close(), w.Close())) })
	assert.Check(t, New(w, w, "build", func(string) string { return "" }) == nil)
	(*Screen)(nil).SetNow(runlog.Now{})
	(*Screen)(nil).Close()

	master, tty, err := pty.Open()
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, errors.Join(master.Close(), tty.Close())) })
	assert.Check(t, New(tty, tty, "build", func(string) string { return "dumb" }) == nil)
	s := New(tty, tty, "build", func(string) string { return "" })
	assert.NilError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 66}))
	assert.Equal(t, s.width(), 66)
	s.Close()
}
