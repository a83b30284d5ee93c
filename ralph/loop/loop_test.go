package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// script is an agent whose program is a shell script.
type script string

func (script) Name() string                 { return "claude" }
func (script) Prompt(agent.Session) string  { return "" }
func (script) Backend(agent.Session) string { return "" }
func (script) Model(agent.Session) string   { return "" }
func (script) Check(agent.Session) error    { return nil }

func (s script) Interactive(context.Context, agent.Session) (agent.Command, error) {
	return agent.Command{}, errors.New("a script has no interface")
}

func (s script) Prepare(context.Context, agent.Session) (agent.Command, error) {
	if s == "" {
		return agent.Command{}, errors.New("no program")
	}
	return agent.Command{Path: "/bin/sh", Args: []string{"-c", string(s)}}, nil
}

func (script) Decoder() event.Decoder { return stream.Claude() }

// emptyBacklog is a backlog without tasks, to which nothing happens.
type emptyBacklog struct{}

func (emptyBacklog) Status(context.Context) (session.Status, error) { return session.Status{}, nil }

func (emptyBacklog) Tasks(context.Context) (map[string]session.Task, error) {
	return map[string]session.Task{}, nil
}

func (emptyBacklog) Claimable(context.Context) (bool, error)                    { return false, nil }
func (emptyBacklog) Held(context.Context, string) ([]string, error)             { return nil, nil }
func (emptyBacklog) Renew(context.Context, string) error                        { return nil }
func (emptyBacklog) Release(context.Context, string, string, string) error      { return nil }
func (emptyBacklog) Forgive(context.Context, string) error                      { return nil }
func (emptyBacklog) Explain(context.Context, string, string) error              { return nil }
func (emptyBacklog) Reopen(context.Context, string, string) error               { return nil }
func (emptyBacklog) RenameCommit(context.Context, string, string, string) error { return nil }
func (emptyBacklog) Park(context.Context, string, string, ...string) error      { return nil }
func (emptyBacklog) ApplyDefaults(context.Context) ([]string, error)            { return nil, nil }
func (emptyBacklog) BeginRun(context.Context, string) error                     { return nil }
func (emptyBacklog) Overtaken(context.Context, string) ([]string, error)        { return nil, nil }
func (emptyBacklog) AdoptHint(context.Context) (string, error)                  { return "", nil }
func (emptyBacklog) Accepted(context.Context) (string, error)                   { return "", nil }
func (emptyBacklog) Deregister(context.Context, string) error                   { return nil }

func (emptyBacklog) Register(context.Context) (session.Registration, error) {
	return session.Registration{}, nil
}

// listBacklog is a backlog that answers from lists and records its calls.
type listBacklog struct {
	emptyBacklog
	statuses []session.Status // the last one stays
	held     []string         // at every question
	calls    []string
}

func (b *listBacklog) Status(context.Context) (session.Status, error) {
	b.calls = append(b.calls, "status")
	if len(b.statuses) == 0 {
		return session.Status{}, errors.New("database is locked")
	}
	s := b.statuses[0]
	if len(b.statuses) > 1 {
		b.statuses = b.statuses[1:]
	}
	return s, nil
}

func (b *listBacklog) Held(_ context.Context, agentID string) ([]string, error) {
	b.calls = append(b.calls, "held "+agentID)
	return b.held, nil
}

func (b *listBacklog) Release(_ context.Context, _, slug, reason string) error {
	b.calls = append(b.calls, fmt.Sprintf("release %s: %s", slug, reason))
	return nil
}

// testLoop is one loop with what it printed.
type testLoop struct {
	Options
	out, errs output.Buffer
	signals   chan os.Signal
}

func newTestLoop(t *testing.T, mode agent.Mode, program script, b *listBacklog) *testLoop {
	t.Helper()
	tr := &testLoop{signals: make(chan os.Signal, 4)}
	tr.Options = Options{
		Agent: program, Session: agent.Session{Mode: mode}, AgentID: "3c9e",
		Env:     append(os.Environ(), "DIR="+t.TempDir()),
		Head:    func(context.Context) string { return "c0ffee" },
		Count:   func(context.Context, string, string) int { return 1 },
		Bounds:  config.Loop{MaxFailures: 3},
		Signals: tr.signals, Stdout: &tr.out, Stderr: &tr.errs,
		timing: timing{drain: 500 * time.Millisecond, poll: 20 * time.Millisecond, pause: 100 * time.Millisecond, outage: 5 * time.Second},
	}
	if b != nil {
		tr.Backlog = b
	}
	return tr
}

// printed is the loop's output without its figures.
func (tr *testLoop) printed() string {
	return figures.ReplaceAllString(tr.out.String(), "")
}

var figures = regexp.MustCompile(`(?m)^Iteration .*\n|^\nRUN (.*\n)+?Total: .*\n(No checks .*\n)?(Log: .*\n)?`)

func (tr *testLoop) dir() string { return strings.TrimPrefix(tr.Env[len(tr.Env)-1], "DIR=") }

const (
	say  = `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"hello"}]}}'; `
	rule = "========================"
)

func separator(k int) string { return fmt.Sprintf("\n\n%s LOOP %d %s\n", rule, k, rule) }

func TestPlanRunsExactlyNTimes(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, say, nil)
	tr.MaxIterations = 2
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, LimitReached)
	assert.Equal(t, tr.printed(), "hello\n"+separator(1)+"hello\n"+separator(2)+"Reached max iterations: 2\n")
}

func TestBuildReleasesBetweenTheChecks(t *testing.T) {
	b := &listBacklog{statuses: []session.Status{{Open: 1}, {}}, held: []string{"a/1", "b/2"}}
	tr := newTestLoop(t, agent.Build, say, b)
	tr.timing.poll = time.Minute // which asks the backlog, too
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, tr.printed(), "hello\nfailed a/1\nfailed b/2\nAll tasks complete. Exiting loop.\n")
	assert.DeepEqual(t, b.calls, []string{
		"status", "held 3c9e", "release a/1: " + reasonCrashed, "release b/2: " + reasonCrashed, "status", "status",
	})
}

func TestBuildDoesNotStartWhenComplete(t *testing.T) {
	tr := newTestLoop(t, agent.Build, "", &listBacklog{statuses: []session.Status{{Done: 2}}})
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, tr.printed(), "All tasks complete. Exiting loop.\n")
	assert.Equal(t, tr.errs.String(), "")
}

func TestBlockedTasksAreNotComplete(t *testing.T) {
	tr := newTestLoop(t, agent.Build, "", &listBacklog{statuses: []session.Status{{Done: 1, Blocked: 2}}})
	report, err := Run(t.Context(), tr.Options)
	assert.Equal(t, report.Stop, Unfinished)
	assert.Error(t, err, "only blocked and waiting tasks are left: 2")
	assert.Equal(t, tr.printed(), "")
}

func TestBuildContinuesWithoutBacklog(t *testing.T) {
	for name, b := range map[string]*listBacklog{"none": nil, "unreadable": {}} {
		t.Run(name, func(t *testing.T) {
			tr := newTestLoop(t, agent.Build, say, b)
			tr.MaxIterations = 2
			report, err := Run(t.Context(), tr.Options)
			assert.NilError(t, err)
			assert.Equal(t, report.Stop, LimitReached)
		})
	}
}

func TestFailingRuns(t *testing.T) {
	open := session.Status{Open: 1}
	refused := `echo '{"type":"user","message":{"content":"<local-command-stderr>Error: no skill</local-command-stderr>"}}';
		echo '{"type":"result","subtype":"success","is_error":false,"num_turns":0}'`
	reported := `printf '%s\n' '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":1,"result":"No credit\nat all"}'`
	for _, tc := range []struct {
		name, program string
		want          string // "": the runs are made; "last": the last one failed
	}{
		{"good", say, ""},
		{"not JSON", "echo hello; echo there", ""},
		{"exit code", "exit 7", "exited with code 7"},
		{"killed", "kill -KILL $$", "exited with code 137"},
		{"prompt refused", refused, "reported an error: Error: no skill"},
		{"error reported", reported, "reported an error: No credit"},
		{"now and then", `[ -e $DIR/x ] && exec rm $DIR/x; touch $DIR/x; exit 1`, "last"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTestLoop(t, agent.Build, script(tc.program), &listBacklog{statuses: []session.Status{open}})
			tr.MaxIterations = 5
			report, err := Run(t.Context(), tr.Options)
			if tc.want == "" {
				assert.NilError(t, err)
				assert.Equal(t, report.Stop, LimitReached)
				return
			}
			if tc.want == "last" {
				assert.Error(t, err, "the agent claude failed: exited with code 1")
				assert.Equal(t, report.Stop, RunFailed)
				assert.Equal(t, len(report.Iterations), 5)
				return
			}
			assert.Equal(t, report.Stop, MaxFailures)
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, strings.Count(tr.errs.String(), "Warning: the agent "), 3)
			assert.Equal(t, strings.Count(tr.out.String(), "LOOP"), 3)
		})
	}
}

func TestFailingRunsWithProgressContinue(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, "exit 1", nil)
	tr.MaxIterations = 5
	commits := 0
	tr.Head = func(context.Context) string { commits++; return fmt.Sprint(commits) }
	report, err := Run(t.Context(), tr.Options)
	assert.Error(t, err, "the agent claude failed: exited with code 1")
	assert.Equal(t, report.Stop, RunFailed)
	assert.Equal(t, len(report.Iterations), 5)
}

func TestMissingProgram(t *testing.T) {
	report, err := Run(t.Context(), newTestLoop(t, agent.Build, "", nil).Options)
	assert.Equal(t, report.Stop, Failed)
	assert.Error(t, err, "preparing the agent: no program")
}

func TestPausesWhileOthersHoldAllTasks(t *testing.T) {
	s := newFileBacklog(t)
	s.tasks["a"] = session.Task{Status: statusActive, Assignee: "other"} // its lease has run out
	tr := newFileLoop(t, say, s)
	tr.MaxIterations = 2
	start := time.Now()
	_, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Assert(t, time.Since(start) >= tr.timing.pause)
	assert.Assert(t, cmp.Contains(tr.out.String(), "All remaining tasks are claimed by other agents. Retrying in 100ms.\n"))
	assert.Equal(t, strings.Count(tr.out.String(), "Retrying in"), 1, "no pause after the last run")
}

func TestPauseDoublesAndEnds(t *testing.T) {
	l := &loop{Options: Options{timing: defaultTiming}}
	waiting := snapshot{known: true, status: session.Status{Active: 1}}
	var pauses []time.Duration
	for range 11 {
		l.setPause(&iteration{before: waiting, after: waiting})
		pauses = append(pauses, l.pause)
	}
	assert.DeepEqual(t, pauses, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 64e9, 128e9, 256e9, 300e9, 300e9})
	l.setPause(&iteration{before: waiting, after: snapshot{known: true, status: session.Status{Open: 1}}})
	assert.Equal(t, l.pause, time.Duration(0))
}

func TestSignals(t *testing.T) {
	const (
		gentle   = `trap 'exit 0' INT; touch $DIR/ready; while :; do sleep 0.05; done`
		stubborn = `trap '' INT TERM; touch $DIR/ready; while :; do sleep 0.05; done`
		waiting  = "\nWaiting for claude to finish cleanup... Press Ctrl+C again to force quit.\n"
	)
	for _, tc := range []struct {
		name    string
		program script
		signals []os.Signal
		want    string
	}{
		{"once", gentle, []os.Signal{os.Interrupt}, waiting},
		{"twice", stubborn, []os.Signal{os.Interrupt, os.Interrupt}, waiting},
		{"terminate", stubborn, []os.Signal{syscall.SIGTERM}, ""},
		{"terminate while waiting", stubborn, []os.Signal{os.Interrupt, syscall.SIGTERM}, waiting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &listBacklog{statuses: []session.Status{{Open: 1}}, held: []string{"a"}}
			tr := newTestLoop(t, agent.Build, tc.program, b)
			var report Report
			var err error
			ended := make(chan struct{})
			go func() { defer close(ended); report, err = Run(t.Context(), tr.Options) }()
			poll.WaitOn(t, poll.FileExists(filepath.Join(tr.dir(), "ready")))
			for _, sig := range tc.signals {
				tr.signals <- sig
			}
			<-ended
			assert.NilError(t, err)
			assert.Equal(t, report.Stop, Interrupted)
			assert.Equal(t, tr.printed(), tc.want+"failed a\n")
			assert.Assert(t, cmp.Contains(b.calls, "release a: "+reasonInterrupted))
		})
	}
}

func TestSignalBetweenRuns(t *testing.T) {
	tr := newTestLoop(t, agent.Build, "touch $DIR/ran", &listBacklog{statuses: []session.Status{{Open: 1}}})
	tr.signals <- os.Interrupt
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Interrupted)
	_, err = os.Stat(filepath.Join(tr.dir(), "ran"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestClosedOutputEndsTheLoop(t *testing.T) {
	b := &listBacklog{statuses: []session.Status{{Open: 1}}, held: []string{"a"}}
	tr := newTestLoop(t, agent.Build, "trap '' TERM INT; "+say+"while :; do sleep 0.05; done", b)
	r, w := io.Pipe()
	assert.NilError(t, r.CloseWithError(syscall.EPIPE))
	tr.Stdout = w
	report, err := Run(t.Context(), tr.Options)
	assert.Equal(t, report.Stop, Failed)
	assert.ErrorIs(t, err, syscall.EPIPE)
	assert.Assert(t, cmp.Contains(b.calls, "release a: "+reasonCrashed+": exited with code 137"))
}

func TestAgentInputAndErrors(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, `cat >$DIR/input; echo oops >&2`, nil)
	tr.MaxIterations = 1
	_, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	input, err := os.ReadFile(filepath.Join(tr.dir(), "input"))
	assert.NilError(t, err)
	assert.Equal(t, len(input), 0)
	assert.Equal(t, tr.errs.String(), "oops\n")
}

func TestTimeoutEndsTheRun(t *testing.T) {
	b := &listBacklog{statuses: []session.Status{{Open: 1}}, held: []string{"a/1"}}
	tr := newTestLoop(t, agent.Build, `trap "" INT TERM; (sleep 100; touch $DIR/late) & `+say+`sleep 100`, b)
	tr.Timeout, tr.MaxIterations = 300*time.Millisecond, 1
	report, err := Run(t.Context(), tr.Options)
	assert.Equal(t, report.Stop, TimedOut)
	assert.ErrorContains(t, err, "the run exceeded its time limit of 300ms")
	assert.Equal(t, tr.printed(), "hello\nfailed a/1\n\n\n======================== LOOP 1 ========================\nReached max iterations: 1\n")
	assert.Assert(t, cmp.Contains(b.calls, "release a/1: "+reasonTimedOut))
}

// Neither a bound nor a second signal waits for a blocked output.
func TestBlockedOutputDoesNotDelayTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name, program string
		bound         time.Duration
		signals       int
	}{
		{"after the agent's end", say + "touch $DIR/ready", 0, 1},
		{"while it works", "trap '' INT; " + say + "touch $DIR/ready; while :; do sleep 0.05; done", 0, 2},
		{"after its time", "trap '' INT; " + say + "touch $DIR/ready; while :; do sleep 0.05; done", 300 * time.Millisecond, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &listBacklog{statuses: []session.Status{{Open: 1}}, held: []string{"a"}}
			tr := newTestLoop(t, agent.Build, script(tc.program), b)
			_, unread := io.Pipe()
			tr.Stdout, tr.Timeout = unread, tc.bound
			done := make(chan error, 1)
			go func() {
				_, err := Run(t.Context(), tr.Options)
				done <- err
			}()
			poll.WaitOn(t, poll.FileExists(filepath.Join(tr.dir(), "ready")))
			for range tc.signals {
				tr.signals <- os.Interrupt
			}
			select {
			case err := <-done:
				assert.ErrorIs(t, err, ErrUnread)
			case <-time.After(30 * time.Second):
				t.Fatal("the loop did not end")
			}
			assert.Assert(t, cmp.Contains(strings.Join(b.calls, "\n"), "release a: "))
		})
	}
}
