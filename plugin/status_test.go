package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// limited is a sandbox whose loop waits for a rate limit.
func limited(now time.Time) manage.SandboxStatus {
	ago := func(d time.Duration) *time.Time {
		at := now.Add(-d)
		return &at
	}
	until := time.Date(now.Year(), now.Month(), now.Day(), 15, 4, 0, 0, time.Local)
	cost, unfetched := 2.314, 2
	s := sandboxes()[0]
	s.Activity, s.Unfetched = manage.RateLimited, &unfetched
	s.Blocked = []denylog.Refusal{{Host: "example.com", Port: 443, Times: 3}, {Host: "ev\x1bil", Times: 1}}
	s.Questions = []taskjson.OpenQuestion{{ID: "auth/05", Question: taskjson.Question{Text: "argon2id\nor \x1b[2Jbcrypt?"}}}
	s.Loop = &manage.LoopStatus{
		Command: "build", Running: true, Iteration: 3, Tasks: []string{"auth/02"}, Title: "Hash passwords", Since: ago(62 * time.Minute),
		RunStarted: ago(12 * time.Minute), LastOutput: ago(5 * time.Minute), State: "rate_limited", StateSince: ago(4 * time.Minute), Until: &until, Text: "5-hour limit reached",
		Usage:  runlog.Usage{Tokens: &event.Tokens{Input: 1_200_000, Output: 34_567}, CostUSD: &cost},
		Counts: &runlog.Counts{Open: 3, Active: 1, Blocked: 1, Question: 1, Done: 7}, Limits: runlog.Limits{MaxCostUSD: 20, MaxTokens: 5_000_000, MaxDurationSecs: 8 * 3600},
	}
	return s
}

func TestStatusText(t *testing.T) {
	t.Parallel()
	now := time.Now()
	none := manage.SandboxStatus{Name: "ralph-acme-shop-new", Repo: "acme/shop", Branch: "new", State: string(lifecycle.NotFound), Worktree: "/src/new", Activity: manage.Idle, Counts: &runlog.Counts{Open: 2}}
	left := limited(now)
	left.Loop.Orphaned = true
	ended := sandboxes()[1]
	ended.Activity, ended.Loop.Error, ended.Loop.Summary = manage.Failed, "no progress", "Total: 9 runs"
	golden.Assert(t, statusText(limited(now), now)+"\n"+statusText(ended, now)+"\n"+statusText(none, now)+"\n"+statusText(left, now), "status.golden")
}

// Not only other loops make a loop wait.
func TestStatusSaysWhatALoopWaitsFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := limited(now)
	s.Loop.State, s.Loop.Until, s.Loop.Text = "waiting", nil, "the host cannot take the commits"
	assert.Check(t, is.Contains(statusText(s, now), "waiting for 4 minutes: the host cannot take the commits\n"))
	s.Loop.Text = ""
	assert.Check(t, is.Contains(statusText(s, now), "waiting for other loops for 4 minutes\n"))
}

func TestWriteStatus(t *testing.T) {
	t.Parallel()
	s := limited(time.Now())
	for format, want := range map[string]string{
		"{{.Activity}} {{.TasksLeft}} {{.Cost}} {{.Tokens}}": "rate_limited 6 $2.31 of $20.00 1.23M of 5M\n",
		"{{.Title}}: {{.Questions}} {{.Unfetched}}":          "Hash passwords: 1 2\n",
		"{{.Blocked}}": "example.com:443 ×3, evl\n",
	} {
		var out bytes.Buffer
		assert.NilError(t, writeStatus(&out, format, s))
		assert.Check(t, is.Equal(out.String(), want))
	}
	var out bytes.Buffer
	assert.NilError(t, writeStatus(&out, "json", s))
	var back map[string]any
	assert.NilError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, back["activity"], "rate_limited")
	assert.Equal(t, back["loop"].(map[string]any)["state"], "rate_limited")
	assert.ErrorContains(t, writeStatus(io.Discard, "{{.Nothing}}", s), "Nothing")
}

// However narrow the terminal, the table fits, until only names and loops are left.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	var widest bytes.Buffer
	assert.NilError(t, writeSandboxes(&widest, "table", true, sandboxes()))
	var out bytes.Buffer
	for _, width := range []int{0, 300, 180, 150, 120, 110, 100, 80, 70} {
		var table bytes.Buffer
		assert.NilError(t, writeSandboxTable(&table, true, sandboxes(), width))
		text := strings.NewReplacer("\x1b[32m", "", "\x1b[90m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(table.String())
		for line := range strings.Lines(text) {
			assert.Check(t, width == 0 || runewidth.StringWidth(strings.TrimRight(line, "\n")) <= width, "%d: %q", width, line)
		}
		if width == 0 || width == 300 {
			assert.Equal(t, strings.TrimSpace(text), strings.TrimSpace(widest.String()))
		}
		_, _ = fmt.Fprintf(&out, "%d columns\n%s\n", width, text)
	}
	golden.Assert(t, out.String(), "ls-widths.golden")
}

// watched returns what watching prints for these states, the last of which ends it.
func watched(t *testing.T, v view, size func() (height, width uint), states ...any) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v.collect = func(_ context.Context, h host.Host) ([]manage.SandboxStatus, error) {
		if len(states) == 0 {
			cancel()
			return nil, ctx.Err()
		}
		state := states[0]
		states = states[1:]
		if err, failed := state.(error); failed {
			return nil, err
		}
		return []manage.SandboxStatus{state.(manage.SandboxStatus)}, nil
	}
	var out bytes.Buffer
	h := host.Host{Stderr: &out}
	assert.ErrorContains(t, v.watch(ctx, h, &out, size, time.Millisecond), "")
	return out.String()
}

func TestWatch(t *testing.T) {
	t.Parallel()
	at, cost := time.Now(), 9.9
	one, same, two := limited(at), limited(at), limited(at)
	same.Loop.LastOutput, same.Loop.Usage.CostUSD = &at, &cost
	two.Loop.Iteration, two.Loop.State = 4, "working"
	text := view{show: func(out io.Writer, list []manage.SandboxStatus) error {
		_, err := fmt.Fprintf(out, "run %d\nof a loop\n", list[0].Loop.Iteration)
		return err
	}}
	away := errors.New("the engine does not answer")
	assert.Equal(t, watched(t, text, nil, one, same, two, away, away, two),
		"run 3\nof a loop\n\nrun 4\nof a loop\n\nWarning: the engine does not answer\n\nrun 4\nof a loop\n")
	small := func() (height, width uint) { return 24, 7 }
	assert.Equal(t, watched(t, text, small, one, two), "run 3\nof a l…\n\x1b[2A\r\x1b[Jrun 4\nof a l…\n\n")
	low := func() (height, width uint) { return 2, 80 }
	assert.Equal(t, watched(t, text, low, one, two), "run 3\n\x1b[1A\r\x1b[Jrun 4\n\n")
	lines := view{json: func(list []manage.SandboxStatus) any { return list[0].Loop.Iteration }}
	assert.Equal(t, watched(t, lines, nil, one, same, two, away), "3\n4\nWarning: the engine does not answer\n")
}

func TestStateText(t *testing.T) {
	until := time.Date(2026, 3, 14, 15, 4, 0, 0, time.Local)
	for _, tc := range []struct {
		loop manage.LoopStatus
		want string
	}{
		{manage.LoopStatus{State: "working"}, ""},
		{manage.LoopStatus{State: "rate_limited", Until: &until, Text: "5-hour limit reached"}, "rate limited until 15:04"},
		{manage.LoopStatus{State: "waiting"}, "waiting for other loops"},
		{manage.LoopStatus{State: "waiting", Until: &until, Text: "the host cannot take the commits"}, "waiting until 15:04"},
	} {
		assert.Equal(t, stateText(&tc.loop), tc.want)
	}
}
