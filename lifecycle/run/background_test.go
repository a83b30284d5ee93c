package run

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// leaving is a host whose terminal can be lost.
func leaving(t *testing.T) (h session, lost chan struct{}, screen *bytes.Buffer) {
	t.Helper()
	lost, screen = make(chan struct{}), &bytes.Buffer{}
	h = session{id: "A", Host: host.Host{
		StateDir: t.TempDir(), Stdout: screen, Stderr: screen,
		Confirm:    func(context.Context, string) (bool, error) { return true, nil },
		Background: &host.Background{Lost: lost, ReleaseTTY: func(*os.File) error { return nil }},
	}}
	h, stop := h.inBackground(t.Context())
	t.Cleanup(stop)
	return h, lost, screen
}

func waitDetached(t *testing.T, h session) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if h.background.isDetached() {
			return poll.Success()
		}
		return poll.Continue("it is attached")
	})
}

func TestDetachedLoopWritesALog(t *testing.T) {
	h, lost, screen := leaving(t)
	wt := gitrepo.Worktree{Root: "/a", Scope: gitrepo.Scope{Repo: "a", Branch: "b"}}
	sb := lifecycle.Sandbox{Name: "ralph-a-b", Root: wt.Root, Scope: wt.Scope}
	n, err := h.NewRecord(host.Record{ID: h.id, Command: []string{"ralph", "build"}, Scope: sb.Scope, Root: sb.Root, Sandbox: sb.Name})
	assert.NilError(t, err)
	assert.NilError(t, h.background.recorded(n))
	h.Report("before")
	yes, err := h.Confirm(t.Context(), "?")
	assert.NilError(t, err)
	assert.Check(t, yes)

	close(lost)
	waitDetached(t, h)
	h.Report("after")
	assert.Check(t, is.Equal(screen.String(), "before\n"))
	log, err := os.ReadFile(h.background.path)
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(log), "before\n"))
	assert.Check(t, is.Contains(string(log), "after\n"))
	yes, err = h.Confirm(t.Context(), "?")
	assert.NilError(t, err)
	assert.Check(t, !yes, "a question without a terminal")

	all, err := h.RecordsOf(sb.Name)
	assert.NilError(t, err)
	assert.Equal(t, len(all), 1)
	assert.Check(t, all[0].Live && all[0].Detached)
	assert.Check(t, is.Equal(all[0].Log, h.background.path))
	h.ReportBackgroundLoops(wt)
	log, err = os.ReadFile(h.background.path)
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(log), `Note: "ralph build" is running in the background in sandbox ralph-a-b, since `))

	_, err = host.Ended(h.StateDir, sb.Name)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	h.saveEnd(sb.Name, 0, errors.New("it broke"))
	end, err := host.Ended(h.StateDir, sb.Name)
	assert.NilError(t, err)
	assert.Check(t, is.Equal(end.ExitCode, 1))
	assert.Check(t, is.Equal(end.Error, "it broke"))
}

func TestEndAtTheTerminalIsNotSaved(t *testing.T) {
	h, _, _ := leaving(t)
	h.saveEnd("ralph-a", 3, nil)
	_, err := host.Ended(h.StateDir, "ralph-a")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// brokenScreen is a terminal that is gone.
type brokenScreen struct{}

func (brokenScreen) Write([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestFailedWriteDetaches(t *testing.T) {
	h, lost, _ := leaving(t)
	out := &switchOutput{background: h.background, to: brokenScreen{}}
	time.AfterFunc(50*time.Millisecond, func() { close(lost) })
	_, err := out.Write([]byte("word\n"))
	assert.NilError(t, err)
	log, err := os.ReadFile(h.background.path)
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(log), "word\n"))

	h, _, _ = leaving(t)
	_, err = (&switchOutput{background: h.background, to: brokenScreen{}}).Write([]byte("word\n"))
	assert.ErrorContains(t, err, "input/output error")
}

func TestLoopIsReadyAtItsFirstRule(t *testing.T) {
	var screen bytes.Buffer
	begun := 0
	w := &readyWriter{to: &screen, ready: func() { begun++ }}
	banner := "Warning: x\n" + strings.Repeat("━", 40) + "\n"
	for i := range len(banner) { // however it comes
		_, err := w.Write([]byte{banner[i]})
		assert.NilError(t, err)
		assert.Equal(t, begun == 1, i >= strings.Index(banner, "━")+len(rule)-1)
	}
	assert.Equal(t, screen.String(), banner)
}

func TestRollingLogCanBeFollowed(t *testing.T) {
	dir := t.TempDir()
	l, err := newRollingLog(dir, "id", 10)
	assert.NilError(t, err)
	write := func(s string) {
		_, err := l.Write([]byte(s))
		assert.NilError(t, err)
	}
	write("one\ntwo\n")
	r, err := OpenRolling(l.path, 5)
	assert.NilError(t, err)
	defer r.Close()
	var got bytes.Buffer
	assert.NilError(t, r.Copy(&got))
	assert.Equal(t, got.String(), "two\n", "from the start of a line")
	write("three\n")
	assert.NilError(t, r.Copy(&got))
	write("4\n")
	assert.NilError(t, r.Copy(&got))
	assert.Equal(t, got.String(), "two\nthree\n4\n")
	content, err := os.ReadFile(l.path)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "three\n4\n")
}

func TestOldLogsArePruned(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-48 * time.Hour)
	for i := range detachedLogsMax + 3 {
		path := filepath.Join(dir, string(rune('a'+i))+".log")
		assert.NilError(t, os.WriteFile(path, nil, 0o600))
		if i != 1 { // recently written
			assert.NilError(t, os.Chtimes(path, old, old))
		}
	}
	pruneLogs(dir, detachedLogsMax, time.Now().Add(-24*time.Hour))
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), detachedLogsMax+1)
	assert.Equal(t, left[0].Name()+left[1].Name(), "b.logd.log")
}

func TestSummaryIsOnePrintableLine(t *testing.T) {
	logs := t.TempDir()
	log, err := runlog.Create(logs, runlog.Loop{Mode: "build", Dispatch: "x", Started: time.Now()})
	assert.NilError(t, err)
	_, err = CodeOf(logs, "x")
	assert.ErrorIs(t, err, ErrUnknownEnd)
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete", ExitCode: 4, Summary: "Total:\x1b]0;title\x07 1 run\n\x1b[31mred"}))
	assert.Equal(t, summaryOf(logs, "x"), "Total: 1 run red")
	assert.Equal(t, summaryOf(logs, "y"), "")
	code, err := CodeOf(logs, "x")
	assert.NilError(t, err)
	assert.Equal(t, code, 4)
}

func TestLinesOnARawTerminal(t *testing.T) {
	var screen bytes.Buffer
	_, err := RawLines{&screen}.Write([]byte("a\nb\r\nc"))
	assert.NilError(t, err)
	assert.Equal(t, screen.String(), "a\r\nb\r\nc")
}
