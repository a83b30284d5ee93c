package loop

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// logged runs the loop with a log and returns its events, one line each.
func logged(t *testing.T, tr *testLoop) (lines []string, report Report, last runlog.Snapshot) {
	t.Helper()
	top := t.TempDir()
	log, err := runlog.Create(top, runlog.Loop{Mode: "build", Agent: "claude", Branch: "main", Started: time.Now()})
	assert.NilError(t, err)
	tr.Log = log
	tr.Env = append(tr.Env, "LOG="+top)
	report, _ = Run(t.Context(), tr.Options)
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: string(report.Stop)}))
	r, err := runlog.Find(top, func(runlog.Loop) bool { return true })
	assert.NilError(t, err)
	defer r.Close()
	all, _, err := r.Events(0)
	assert.NilError(t, err)
	for _, e := range all {
		lines = append(lines, eventLine(e.Data))
	}
	return lines, report, r.Snapshot()
}

func eventLine(data runlog.Data) string {
	switch e := data.(type) {
	case *runlog.LoopStart:
		return fmt.Sprintf("start %s %s %s, %d open", e.Mode, e.Agent, e.Branch, e.Tasks.Open)
	case *runlog.LoopResume:
		return "resume " + e.Reason
	case *runlog.RunStart:
		return fmt.Sprintf("run %d at %s", e.N, e.Commit)
	case *runlog.State:
		return strings.TrimSpace(fmt.Sprintf("%s %s", e.State, e.Text))
	case *runlog.TaskChange:
		return strings.TrimSpace(fmt.Sprintf("task %s %q %s %s", e.ID, e.Title, e.Status, e.Reason))
	case *runlog.Question:
		return fmt.Sprintf("question %s %s %v %s %s", e.ID, e.Question, e.Options, e.Default, e.DefaultAt.Format(time.RFC3339))
	case *runlog.LimitNear:
		return fmt.Sprintf("near %s %g of %g", e.Name, e.Used, e.Limit)
	case *runlog.RunEnd:
		return fmt.Sprintf("run %d %s, %d checks, %d retries", e.N, e.Outcome, len(e.Checks), e.Retries)
	default:
		return data.Type()
	}
}

const (
	retry  = `echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":9,"error_status":529,"error":"overloaded"}'; `
	finish = `echo '{"type":"result","subtype":"success","num_turns":1,"total_cost_usd":0.85,"usage":{"input_tokens":50}}'; `
)

// claimingBacklog is a backlog whose tasks the agent holds from when the file exists until they
// are done.
type claimingBacklog struct {
	*fileBacklog
	file string
}

func (c claimingBacklog) Held(ctx context.Context, _ string) (held []string, err error) {
	all, err := c.Tasks(ctx)
	for slug, task := range all {
		if _, absent := os.Stat(c.file); absent == nil && task.Status == statusOpen {
			held = append(held, slug)
		}
	}
	return held, err
}

func TestLoopLogsItsEvents(t *testing.T) {
	s := newFileBacklog(t, "a")
	s.tasks["a"] = session.Task{Title: "Log in", Status: statusOpen, Foreign: true}
	// It waits until the log has its last step.
	const wait = `until grep -q '%s' $LOG/*/events.jsonl; do sleep 0.02; done; `
	tr := newFileLoop(t, retry+fmt.Sprintf(wait, "retrying")+`touch $DIR/claim; `+fmt.Sprintf(wait, `"status":"active"`)+say+finish+`touch $BACKLOG/a`, s)
	tr.Backlog = claimingBacklog{s, filepath.Join(tr.dir(), "claim")}
	tr.Checks = []string{"true"}
	tr.Bounds.MaxCostUSD = 1
	lines, report, last := logged(t, tr)
	assert.Equal(t, report.Stop, Complete)
	assert.DeepEqual(t, lines, []string{
		"start build claude main, 1 open",
		"working",
		"run 1 at c0ffee",
		"retrying request failed (529 overloaded), retry 1 of 9 in 0s",
		`task a "Log in" active`,
		"working",
		"near max_cost_usd 0.85 of 1",
		"checking true",
		"run 1 done, 1 checks, 1 retries",
		`task a "Log in" done`,
		"loop.end",
	})
	assert.Equal(t, last.Now.State, runlog.StateEnded)
	assert.Equal(t, *last.Now.Loop.CostUSD, 0.85)
	assert.Equal(t, last.Now.Run.Tokens.Total(), int64(50))
	assert.Equal(t, last.Now.Counts, runlog.Counts{Done: 1})
	assert.Check(t, !last.Now.LastOutput.IsZero())
}

func TestResumedLoopLogsWhyAndContinuesItsFigures(t *testing.T) {
	tr := newFileLoop(t, finish+`touch $BACKLOG/a`, newFileBacklog(t, "a"))
	cost := 0.5
	tr.Resumed, tr.Earlier = "--resume", []runlog.Iteration{{N: 1, Outcome: "interrupted", CostUSD: &cost}}
	lines, _, last := logged(t, tr)
	assert.DeepEqual(t, lines, []string{
		"resume --resume", "working", "run 2 at c0ffee", "run 2 done, 0 checks, 0 retries", `task a "" done`, "loop.end",
	})
	assert.Equal(t, *last.Now.Run.CostUSD, 0.85)
	assert.Equal(t, *last.Now.Loop.CostUSD, 1.35)
}

// trigger is an output that calls do when a text is written.
type trigger struct {
	io.Writer
	text string
	do   func()
}

func (w trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.do()
	}
	return w.Writer.Write(p)
}

func TestLoopLogsWhatItWaitsFor(t *testing.T) {
	tr := newFileLoop(t, `echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","rateLimitType":"five_hour"}}'; exit 1`, newFileBacklog(t, "a"))
	finish := make(chan os.Signal, 1)
	tr.Finish = finish
	tr.Stdout = trigger{&tr.out, "Waiting 1m0s", func() { finish <- os.Interrupt }}
	lines, report, _ := logged(t, tr)
	assert.Equal(t, report.Stop, Stopped)
	assert.DeepEqual(t, lines, []string{
		"start build claude main, 1 open", "working", "run 1 at c0ffee", "rate_limited five hour limit reached",
		"run 1 rate limited, 0 checks, 0 retries", "rate_limited five hour limit reached", "loop.end",
	})
}
