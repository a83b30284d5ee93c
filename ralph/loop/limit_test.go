package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// looks returns the states one after another, repeating the last.
func looks(states ...Cgroup) func() Cgroup {
	var mu sync.Mutex
	return func() Cgroup {
		mu.Lock()
		defer mu.Unlock()
		now := states[0]
		if len(states) > 1 {
			states = states[1:]
		}
		return now
	}
}

func TestSandboxLimitIsReported(t *testing.T) {
	began := Cgroup{Processes: 9, MaxProcesses: 1024, ForksRefused: 5, MaxMemory: 8 << 30, OOMKills: 1}
	full, refused, killed := began, began, began
	full.Processes, full.ForksRefused = 1020, 6
	refused.ForksRefused, killed.OOMKills = 7, 2
	for _, tc := range []struct {
		name, program string
		then          Cgroup
		reason, hint  string
	}{
		{"stuck", "exec sleep 600", full, "was stopped: process limit (1024) reached", "Hint: raise the limit with RALPH_PIDS and --recreate, or with pids under [sandbox.resources]\n"},
		{"failed", "exit 254", refused, "exited with code 254: process limit (1024) reached", "Hint: raise the limit with RALPH_PIDS"},
		{"killed", "exit 137", killed, "exited with code 137: out of memory: the limit is 8GiB", "Hint: raise the limit with --memory and --recreate, or"},
		{"neither", "exit 3", began, "exited with code 3", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTestLoop(t, agent.Plan, script(tc.program), nil)
			tr.MaxIterations, tr.Limits = 1, looks(began, tc.then)
			report, _ := Run(t.Context(), tr.Options)
			assert.Equal(t, report.Iterations[0].Outcome, "failed")
			assert.Equal(t, report.Iterations[0].Reason, tc.reason)
			assert.Assert(t, cmp.Contains(tr.errs.String(), "Warning: the agent "+tc.reason+"\n"+tc.hint))
		})
	}
}

func TestFullDiskIsReportedAndStopsTheLoop(t *testing.T) {
	for _, tc := range []struct {
		name, program string
		runs          int
		reason        string
	}{
		{"filled for good", "touch $DIR/full; exit 1", 1, "exited with code 1: no space left on /x"},
		{"before", "touch $DIR/full", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTestLoop(t, agent.Plan, script(tc.program), nil)
			full := func() bool { _, err := os.Stat(filepath.Join(tr.dir(), "full")); return err == nil }
			if tc.runs == 0 {
				assert.NilError(t, os.WriteFile(filepath.Join(tr.dir(), "full"), nil, 0o600))
			}
			tr.MaxIterations = 2
			tr.FullDisk = func() (reason, remedy string) {
				if full() {
					return "no space left on /x", "free some"
				}
				return "", ""
			}
			report, err := Run(t.Context(), tr.Options)
			assert.Error(t, err, "starting the next run: no space left on /x")
			assert.DeepEqual(t, hint.Of(err), []string{"free some"})
			assert.Equal(t, report.Stop, Failed)
			assert.Equal(t, len(report.Iterations), tc.runs)
			if tc.runs > 0 {
				assert.Equal(t, report.Iterations[0].Reason, tc.reason)
			}
		})
	}
}

// An agent that gives up does not know that a limit of the sandbox is the cause.
func TestLimitIsAddedToTheAgentsReason(t *testing.T) {
	full := func() (reason, remedy string) { return "/tmp is full (1GiB)", "raise the limit" }
	for _, tc := range []struct {
		name, program, cause string
		set                  func(*testLoop)
		warning              string
	}{
		{name: "temporary files", program: "touch $DIR/full", cause: "/tmp is full (1GiB)", warning: "Warning: the agent gave up: /tmp is full (1GiB)\nHint: raise the limit\n"},
		{
			name: "memory", cause: "out of memory: the limit is 8GiB", warning: "Warning: the agent gave up: out of memory: the limit is 8GiB\nHint: raise the limit with --memory",
			set: func(tr *testLoop) { tr.Limits = looks(Cgroup{}, Cgroup{MaxMemory: 8 << 30, OOMKills: 1}) },
		},
		{
			name: "processes", cause: "process limit (64) reached", warning: "Warning: the agent gave up: process limit (64) reached\nHint: raise the limit with RALPH_PIDS",
			set: func(tr *testLoop) {
				tr.Limits = looks(Cgroup{MaxProcesses: 64}, Cgroup{MaxProcesses: 64, ForksRefused: 9})
			},
		},
		{name: "failed run", program: "touch $DIR/full; exit 3", cause: "/tmp is full (1GiB)", warning: "Warning: the agent exited with code 3: /tmp is full (1GiB)\nHint: raise the limit\n"},
		{name: "no limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a")
			tr := newFileLoop(t, "touch $BACKLOG/a.fail; "+tc.program, s)
			tr.MaxIterations = 1
			tr.TempFiles = func() (clean func() error) {
				return func() error { return os.RemoveAll(filepath.Join(tr.dir(), "full")) }
			}
			tr.FullTemp = func() (reason, remedy string) {
				if _, err := os.Stat(filepath.Join(tr.dir(), "full")); err != nil {
					return "", ""
				}
				return full()
			}
			if tc.set != nil {
				tc.set(tr)
			}
			report, _ := Run(t.Context(), tr.Options)
			if tc.cause == "" {
				assert.Equal(t, report.Iterations[0].Reason, "too hard")
				assert.Equal(t, tr.errs.String(), "")
				return
			}
			assert.Equal(t, s.tasks["a"].Reason, tc.cause+": too hard")
			assert.Check(t, cmp.Contains(report.Iterations[0].Reason, tc.cause))
			assert.Check(t, cmp.Contains(tr.errs.String(), tc.warning))
			assert.Equal(t, strings.Count(tr.errs.String(), "Hint: raise the limit"), 1)
		})
	}
}

func TestOvercomeSandboxLimitIsNoFailure(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, say, nil)
	tr.MaxIterations, tr.Limits = 1, looks(Cgroup{MaxProcesses: 64}, Cgroup{MaxProcesses: 64, ForksRefused: 9})
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Iterations[0].Outcome, "ended")
	assert.Equal(t, tr.errs.String(), "")
}

func TestProcessLimitPreventsTheStart(t *testing.T) {
	w := (&loop{Options: Options{Limits: looks(Cgroup{MaxProcesses: 64})}}).watchLimits()
	err := w.explain(fmt.Errorf("starting sh: %w", syscall.EAGAIN))
	assert.Error(t, err, "starting sh: resource temporarily unavailable: process limit (64) reached")
	assert.Equal(t, len(hint.Of(err)), 1)
	assert.ErrorIs(t, w.explain(syscall.ENOENT), syscall.ENOENT)
}
