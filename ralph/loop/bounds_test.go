package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func newFileLoop(t *testing.T, program string, s *fileBacklog) *testLoop {
	t.Helper()
	tr := newTestLoop(t, agent.Build, script(program), nil)
	tr.Backlog = s
	tr.Dir = t.TempDir()
	tr.Env = append([]string{"BACKLOG=" + s.dir}, tr.Env...)
	return tr
}

const (
	spend  = `echo '{"type":"assistant","message":{"id":"m","content":[],"usage":{"input_tokens":60,"output_tokens":40}}}'; `
	report = `echo '{"type":"result","subtype":"success","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":60,"output_tokens":40}}'; `
)

func TestBounds(t *testing.T) {
	zero, two := 0, 2
	for _, tc := range []struct {
		name, program string
		set           func(*Options)
		stop          Stop
		runs          int
		err           string
	}{
		{"cost", report, func(o *Options) { o.Bounds.MaxCostUSD = 0.4; o.Bounds.Stall = &zero }, MaxCost, 2, "cost limit reached: $0.50 of $0.40 (max_cost_usd)"},
		{"tokens", report, func(o *Options) { o.Bounds.MaxTokens = 250; o.Bounds.Stall = &zero }, MaxTokens, 3, "token limit reached: 300 of 250 (max_tokens)"},
		{"tokens during a run", spend + "sleep 100", func(o *Options) { o.Bounds.MaxTokens = 100 }, MaxTokens, 1, "token limit reached: 100 of 100"},
		{"duration", "sleep 100", func(o *Options) { o.Bounds.MaxDuration = 200 * time.Millisecond }, MaxDuration, 1, "time limit of 200ms reached (max_duration)"},
		{"stall by default", say, func(*Options) {}, Stalled, 3, "no progress: 3 runs in a row without a commit or a finished task"},
		{"stall as asked for", say, func(o *Options) { o.Bounds.Stall = &two; o.MaxIterations = 5 }, Stalled, 2, "2 runs in a row"},
		{"no stall with a number of runs", say, func(o *Options) { o.MaxIterations = 4 }, Unfinished, 4, "unfinished tasks: a"},
		{"idle", say + "sleep 100", func(o *Options) { o.Bounds.Idle = 200 * time.Millisecond; o.MaxIterations = 1 }, Idle, 1, "no output for 200ms"},
		{"idle in a row", say + "sleep 100", func(o *Options) { o.Bounds.Idle = 200 * time.Millisecond; o.Bounds.MaxFailures = 2 }, MaxFailures, 2, "failed 2 times in a row without progress: was stopped: no output for 200ms"},
		{"failures", "exit 3", func(o *Options) { o.Bounds.MaxFailures = 2 }, MaxFailures, 2, "failed 2 times in a row"},
		{"failures are no stall", "exit 3", func(o *Options) { o.Bounds.MaxFailures = 5 }, MaxFailures, 5, "failed 5 times in a row"},
		{"failures without their limit are", "exit 3", func(o *Options) { o.Bounds.MaxFailures = 0 }, Stalled, 3, "3 runs in a row"},
		{"earlier runs count", report, func(o *Options) {
			cost := 0.3
			o.Bounds.MaxCostUSD, o.Earlier = 0.4, []runlog.Iteration{{N: 1, CostUSD: &cost}}
		}, MaxCost, 1, "cost limit reached: $0.55"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a")
			s.held = []string{"a"}
			tr := newFileLoop(t, tc.program, s)
			tc.set(&tr.Options)
			report, err := Run(t.Context(), tr.Options)
			assert.Equal(t, report.Stop, tc.stop, "%v\n%s", err, tr.out.String())
			assert.Equal(t, len(report.Iterations), tc.runs)
			assert.Equal(t, len(s.notes), tc.runs, "every run's task is released: %q", s.notes)
			blameless := tc.stop == MaxDuration || tc.name == "tokens during a run"
			assert.Equal(t, len(s.forgiven) > 0, blameless, "%q", s.forgiven)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestExitCodeOfUnfinishedWork(t *testing.T) {
	for _, tc := range []struct {
		name, program string
		mode          agent.Mode
		held          []string // by the agent, after each run
		checks        []string
		stop          Stop
		code          int
		err           string
	}{
		{"done", "touch $BACKLOG/a", agent.Build, nil, nil, LimitReached, 0, ""},
		{"done by a run that failed afterwards", "touch $BACKLOG/a; exit 3", agent.Build, nil, nil, LimitReached, 0, ""},
		{"nothing claimed", "true", agent.Build, nil, nil, LimitReached, 0, ""},
		{"failed without a task", "exit 3", agent.Build, nil, nil, RunFailed, 6, "the agent claude failed: exited with code 3"},
		{"killed", "kill -KILL $$", agent.Build, []string{"a"}, nil, RunFailed, 6, "exited with code 137"},
		{"failed checks", "touch $BACKLOG/a", agent.Build, nil, []string{"false"}, Unfinished, 10, "unfinished tasks: a"},
		{"left behind", "true", agent.Build, []string{"b"}, nil, Unfinished, 10, "unfinished tasks: b"},
		{"failed plan", "exit 3", agent.Plan, nil, nil, RunFailed, 6, "the agent claude failed: exited with code 3"},
		{"plan", "true", agent.Plan, nil, nil, LimitReached, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a", "b")
			s.held = tc.held
			tr := newFileLoop(t, tc.program, s)
			tr.Session.Mode, tr.Checks, tr.MaxIterations = tc.mode, tc.checks, 1
			report, err := Run(t.Context(), tr.Options)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
			assert.Equal(t, report.Stop, tc.stop)
			assert.Equal(t, report.Stop.ExitCode(), tc.code)
			assert.Assert(t, cmp.Contains(tr.out.String(), "Reached max iterations: 1\n"))
		})
	}
}

func TestEmptyBacklogWarns(t *testing.T) {
	tr := newFileLoop(t, "false", newFileBacklog(t))
	tr.Session.Sandboxed = true
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, tr.errs.String(), "Warning: the backlog has no tasks\n"+
		"Hint: create one with \"docker ralph task create ID TITLE\", or have the agent plan with \"docker ralph plan\"\n")
}

// renamed is the empty backlog of a branch that was renamed.
type renamed struct{ *fileBacklog }

func (renamed) AdoptHint(context.Context) (string, error) { return "Hint: take over the tasks", nil }

func TestEmptyBacklogOfARenamedBranchWarns(t *testing.T) {
	b := newFileBacklog(t)
	tr := newFileLoop(t, "false", b)
	tr.Backlog = renamed{b}
	_, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(tr.errs.String(), "Warning: the backlog has no tasks\nHint: take over the tasks\nHint: create one with "))
}

func TestDollars(t *testing.T) {
	for usd, want := range map[float64]string{0: "$0.00", 0.0042: "$0.0042", 0.01: "$0.01", 12.345: "$12.35"} {
		assert.Equal(t, dollars(usd), want)
	}
}

func TestUnknownCostWarns(t *testing.T) {
	tr := newFileLoop(t, say, newFileBacklog(t, "a"))
	tr.MaxIterations, tr.Bounds.MaxCostUSD, tr.Bounds.MaxTokens = 2, 1, 1
	_, err := Run(t.Context(), tr.Options)
	assert.Error(t, err, "the cost of agent claude is unknown: max_cost_usd cannot be enforced")
	assert.Equal(t, strings.Count(tr.errs.String(), "max_cost_usd is not enforced"), 1)
	assert.Equal(t, strings.Count(tr.errs.String(), "max_tokens is not enforced"), 1)
	assert.Assert(t, cmp.Contains(tr.out.String(), "tokens: unknown | cost: unknown"))
}

func TestAgentThatDoesNotExitAfterItsResultSucceeds(t *testing.T) {
	tr := newFileLoop(t, `touch $BACKLOG/a; (sleep 100 &) ; `+report+`trap "" TERM INT; sleep 100`, newFileBacklog(t, "a"))
	tr.Bounds.Grace = 200 * time.Millisecond
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeDone)
	assert.DeepEqual(t, report.Iterations[0].Tasks, []string{"a"})
}

func TestAgentThatResumesAfterItsResultIsNotKilled(t *testing.T) {
	w := &watch{loop: &loop{Options: Options{Bounds: config.Loop{Grace: time.Second, Idle: time.Minute}}}}
	w.apply([]event.Event{event.Result{Summary: "Done"}})
	assert.Equal(t, w.quietFor, time.Second)
	w.apply([]event.Event{event.Resumed{}})
	assert.Equal(t, w.quietFor, time.Minute)
	assert.Assert(t, w.out.result == nil)
}

func TestChecks(t *testing.T) {
	s := newFileBacklog(t, "a", "b")
	// The agent does "a", then "a" again with what the check wants, then "b".
	tr := newFileLoop(t, `if [ ! -e $DIR/once ]; then touch $DIR/once $BACKLOG/a; elif [ ! -e $DIR/good ]; then touch $DIR/good $BACKLOG/a; else touch $BACKLOG/b; fi`, s)
	tr.Checks = []string{"echo fine", "echo broken; printf '\\033[31mred\\033[0m\\n' >&2; test -e $DIR/good"}
	log, err := runlog.Create(tr.Dir, runlog.Loop{Mode: "build", Started: time.Now()})
	assert.NilError(t, err)
	tr.Log = log
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, len(s.notes), 1)
	assert.Equal(t, s.notes[0], `reopen a: check "`+`echo broken; printf '\\033[31mred\\033[0m\\n' >&2; test -e $DIR/good`+`" failed with exit code 1:`+"\nbroken\nred")
	var outcomes []string
	for _, it := range report.Iterations {
		outcomes = append(outcomes, it.Outcome+" "+strings.Join(it.Tasks, ","))
	}
	assert.DeepEqual(t, outcomes, []string{"checks failed a", "done a", "done b"})
	assert.Assert(t, cmp.Contains(tr.out.String(), "reopened a\n"))
	assert.Assert(t, !strings.Contains(tr.out.String(), "No checks are configured"))
	kept, err := os.ReadFile(filepath.Join(tr.Dir, log.Loop.ID, "1.checks.log"))
	assert.NilError(t, err)
	assert.Equal(t, string(kept), "fine\nbroken\n\x1b[31mred\x1b[0m\n")
}

func TestCheckMayLeaveABackgroundProcess(t *testing.T) {
	s := newFileBacklog(t, "a")
	tr := newFileLoop(t, `if [ ! -e $DIR/once ]; then touch $DIR/once $BACKLOG/a; else touch $DIR/good $BACKLOG/a; fi`, s)
	tr.Checks = []string{"[ -e $DIR/begun ] || { touch $DIR/begun; sleep 100 & }", "test -e $DIR/good"}
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, len(report.Iterations), 2)
	assert.Assert(t, cmp.Contains(s.notes[0], `reopen a: check "test -e $DIR/good" failed`))
}

func TestUncheckableTaskIsReopened(t *testing.T) {
	s := newFileBacklog(t, "a")
	tr := newFileLoop(t, `touch $BACKLOG/a`, s)
	tr.Dir, tr.Checks = filepath.Join(tr.Dir, "missing"), []string{"true"}
	_, err := Run(t.Context(), tr.Options)
	assert.ErrorContains(t, err, `running the check "true"`)
	assert.Assert(t, cmp.Contains(s.notes[0], "reopen a: the checks could not be run"))
}

// unreadableBacklog is a backlog that becomes unreadable during the run.
type unreadableBacklog struct{ *fileBacklog }

func (b unreadableBacklog) Tasks(ctx context.Context) (map[string]session.Task, error) {
	all, err := b.fileBacklog.Tasks(ctx)
	if all["a"].Status == statusFinished {
		return nil, errors.New("it is malformed")
	}
	return all, err
}

func TestChecksFailWithoutReadableBacklog(t *testing.T) {
	for _, tc := range []struct {
		checks []string
		err    string
	}{{[]string{"true"}, "ending the run: the finished tasks are unknown"}, {nil, ""}} {
		s := newFileBacklog(t, "a")
		tr := newFileLoop(t, `touch $BACKLOG/a`, s)
		tr.Checks, tr.MaxIterations, tr.Backlog = tc.checks, 1, unreadableBacklog{s}
		_, err := Run(t.Context(), tr.Options)
		if tc.err != "" {
			assert.ErrorContains(t, err, tc.err)
		} else {
			assert.NilError(t, err)
		}
	}
}

// heldBacklog is a backlog whose only task another agent holds and eventually finishes.
type heldBacklog struct {
	*fileBacklog
	done func() bool
}

func (b *heldBacklog) Claimable(context.Context) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done() {
		b.tasks["a"] = session.Task{Status: statusDone, Assignee: "other"}
	}
	return false, nil
}

func TestNoAgentStartsWhileOthersHoldAllTasks(t *testing.T) {
	s := newFileBacklog(t)
	s.tasks["a"] = session.Task{Status: statusActive, Assignee: "other", Leased: true}
	tr := newFileLoop(t, "true", s)
	secondPause := "Retrying in 200ms.\n"
	tr.Backlog = &heldBacklog{fileBacklog: s, done: func() bool { return strings.Contains(tr.out.String(), secondPause) }}
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, len(report.Iterations), 0)
	assert.Assert(t, cmp.Contains(tr.out.String(), secondPause))
}

func TestInterruptedCheckReopensTheTask(t *testing.T) {
	s := newFileBacklog(t, "a")
	tr := newFileLoop(t, `touch $BACKLOG/a`, s)
	tr.Checks = []string{"touch $DIR/ready; sleep 100"}
	done := make(chan Report)
	go func() {
		report, _ := Run(t.Context(), tr.Options)
		done <- report
	}()
	poll.WaitOn(t, poll.FileExists(filepath.Join(tr.dir(), "ready")))
	tr.signals <- os.Interrupt
	report := <-done
	assert.Equal(t, report.Stop, Interrupted)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeInterrupted)
	assert.DeepEqual(t, s.forgiven, []string{"a"})
	assert.Equal(t, report.Totals.Released, 1)
	assert.Equal(t, report.Totals.Failed, 0)
	assert.Assert(t, cmp.Contains(s.notes[0], "reopen a: check"))
	assert.Assert(t, cmp.Contains(s.notes[0], "was interrupted"))
}

func TestWaitsForRateLimit(t *testing.T) {
	s := newFileBacklog(t, "a")
	s.held = []string{"a"}
	tr := newFileLoop(t, `n=$(cat $DIR/n 2>/dev/null); echo $((n+1)) >$DIR/n; [ "$n" = 1 ] && touch $BACKLOG/a && exit; echo "error 429: try again in 1ms" >&2; exit 1`, s)
	tr.MaxIterations = 1
	tr.Bounds.MaxFailures = 1
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, len(report.Iterations), 2)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeLimited)
	assert.Equal(t, s.notes[0], "release a: "+reasonLimited+": error 429: try again in 1ms")
	assert.DeepEqual(t, s.forgiven, []string{"a"})
	assert.Equal(t, strings.Count(tr.out.String(), "LOOP"), 0, "limited runs are no iterations")
	assert.Equal(t, strings.Count(tr.out.String(), `Rate limit of claude ("error 429: try again in 1ms"). Waiting `), 1)
}

func TestQuotedRateLimitIsIgnored(t *testing.T) {
	const quote = "HTTP 429 Too Many Requests, Retry-After: 3600"
	for name, o := range map[string]outcome{
		"killed":           {code: 137, tail: quote},
		"other last words": {code: 1, tail: quote + "\nrunning tests\npanic: nil pointer"},
		"worked":           {code: 0, tail: quote},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Assert(t, classified(t, o).class != classWorld)
		})
	}
	for name, o := range map[string]outcome{
		"complaint":   {code: 137, complaint: quote},
		"last words":  {code: 1, tail: "working\n" + quote + "\nTry again later"},
		"last result": {code: 1, result: &event.Result{Failed: true, Text: quote}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, classified(t, o).class, classWorld)
		})
	}
}

func TestRateLimitBeyondTheBounds(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"max_wait":     func(o *Options) { o.Bounds.MaxWait = 30 * time.Second },
		"max_duration": func(o *Options) { o.Bounds.MaxDuration = 30 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newFileLoop(t, `echo 429 rate limited; exit 1`, newFileBacklog(t, "a"))
			set(&tr.Options)
			report, err := Run(t.Context(), tr.Options)
			assert.ErrorContains(t, err, "lasts another 1m0s")
			assert.ErrorContains(t, err, name)
			assert.Assert(t, report.Stop == RateLimited || report.Stop == MaxDuration)
		})
	}
}

func TestInterruptDuringARateLimit(t *testing.T) {
	tr := newFileLoop(t, `echo 429 rate limited; exit 1`, newFileBacklog(t, "a"))
	done := make(chan Report)
	go func() {
		report, _ := Run(t.Context(), tr.Options)
		done <- report
	}()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(tr.out.String(), "Waiting 1m0s, until ") {
			return poll.Success()
		}
		return poll.Continue("no wait")
	})
	tr.signals <- os.Interrupt
	assert.Equal(t, (<-done).Stop, Interrupted)
}

// classified returns a run of an agent that had no task.
func classified(t *testing.T, o outcome) *iteration {
	t.Helper()
	l := &loop{Options: Options{Agent: script(""), Head: func(context.Context) string { return "" }}}
	it := &iteration{outcome: o}
	l.classify(t.Context(), it)
	return it
}

func TestOvercomeRateLimitIsIgnored(t *testing.T) {
	limit := stream.Message{Fault: stream.RateLimited}
	assert.Equal(t, classified(t, outcome{limit: limit, result: &event.Result{}}).class, classNone)
	assert.Equal(t, classified(t, outcome{limit: limit}).class, classWorld, "an agent that gave up without a result")
	assert.Equal(t, classified(t, outcome{limit: limit, end: endIdle}).class, classWorld, "an agent that waits in silence")
}

func TestRough(t *testing.T) {
	for d, want := range map[time.Duration]string{
		150 * time.Millisecond: "150ms", 90 * time.Second: "1m30s", 62 * time.Minute: "1h02m", 27 * time.Hour: "27h00m",
	} {
		assert.Equal(t, rough(d), want)
	}
}
