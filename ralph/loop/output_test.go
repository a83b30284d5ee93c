package loop

import (
	"bytes"
	"strings"
	"testing"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/internal/testutil/screentest"
	"github.com/docker-ralph/docker-ralph/ralph/screen"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// atTerminal runs the loop at a terminal and returns what it shows.
func atTerminal(t *testing.T, tr *testLoop) (shown string) {
	t.Helper()
	master, tty, err := pty.Open()
	assert.NilError(t, err)
	assert.NilError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	var sent bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = sent.ReadFrom(master) // ends with EIO
	}()
	tr.Screen = screen.New(tty, tty, "build", func(string) string { return "" })
	tr.Transcript = &tr.out
	tr.Stdout = both{tr.Screen, &tr.out}
	tr.Stderr = tr.Screen
	_, _ = Run(t.Context(), tr.Options)
	tr.Screen.Close()
	assert.NilError(t, tty.Close())
	<-read
	assert.NilError(t, master.Close())
	return screentest.Render(sent.String())
}

// both writes to the screen and to the transcript.
type both struct {
	screen *screen.Screen
	log    *output.Buffer
}

func (b both) Write(p []byte) (int, error) {
	_, _ = b.log.Write(p)
	return b.screen.Write(p)
}

func TestTerminalShowsTheRunsInTheirOwnForm(t *testing.T) {
	tr := newFileLoop(t, say+`echo '{"type":"result","subtype":"success","num_turns":1}'; test -e $DIR/failed || { touch $DIR/failed; exit 3; }; touch $BACKLOG/a`, newFileBacklog(t, "a"))
	shown := atTerminal(t, tr)
	for _, want := range []string{
		"── Run 1 ───", "\nhello\n✗ Iteration 1: failed | ", "Warning: the agent exited with code 3",
		"── Run 2 ───", "\nhello\n✓ Iteration 2: done a | ", "All tasks complete.",
	} {
		_, rest, found := strings.Cut(shown, want)
		assert.Assert(t, found, "no %q in order in %s", want, shown)
		shown = rest
	}
	logged := tr.out.String()
	assert.Check(t, cmp.Contains(logged, "hello\n━━ Done (success) | cost: $null | turns: 1 ━━\nIteration 1: failed | "))
	assert.Check(t, cmp.Contains(logged, separator(1)))
	assert.Check(t, !strings.ContainsAny(logged, "\x1b\r"), "%q", logged)
	assert.Check(t, !strings.Contains(logged, "── Run"))
}

func TestTerminalDoesNotClaimThatNoTasksAreComplete(t *testing.T) {
	tr := newTestLoop(t, "build", "", &listBacklog{statuses: []session.Status{{}}})
	shown := atTerminal(t, tr)
	assert.Check(t, cmp.Contains(shown, "Warning: the backlog has no tasks\n"))
	assert.Check(t, !strings.Contains(shown, "complete"))
	assert.Equal(t, tr.out.String(), allComplete)
}
