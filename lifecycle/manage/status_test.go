package manage

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func TestActivity(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	running := func(state string) *LoopStatus { return &LoopStatus{Running: true, State: state} }
	open := []taskjson.OpenQuestion{{ID: "a"}}
	for name, tc := range map[string]struct {
		s    SandboxStatus
		want Activity
	}{
		"working":           {SandboxStatus{Loop: running("working")}, Working},
		"starting":          {SandboxStatus{Loop: running("")}, Working},
		"a forged state":    {SandboxStatus{Loop: running("failed")}, Working},
		"checks":            {SandboxStatus{Loop: running("checking")}, Checking},
		"rate limit":        {SandboxStatus{Loop: running("rate_limited")}, RateLimited},
		"retries":           {SandboxStatus{Loop: running("retrying")}, Retrying},
		"other loops":       {SandboxStatus{Loop: running("waiting")}, Waiting},
		"works on, asks":    {SandboxStatus{Loop: running("working"), Questions: open}, Working},
		"only asks":         {SandboxStatus{Loop: &LoopStatus{ExitCode: code(12), Stop: "question"}, Questions: open}, NeedsAnswer},
		"answered":          {SandboxStatus{Loop: &LoopStatus{ExitCode: code(12), Stop: "question"}}, Ended},
		"complete":          {SandboxStatus{Loop: &LoopStatus{ExitCode: code(0), Stop: "complete"}}, Ended},
		"a limit":           {SandboxStatus{Loop: &LoopStatus{ExitCode: code(4), Stop: "max_cost_usd"}}, Ended},
		"Ctrl+C":            {SandboxStatus{Loop: &LoopStatus{ExitCode: code(130), Stop: "interrupted"}}, Ended},
		"failed":            {SandboxStatus{Loop: &LoopStatus{ExitCode: code(6), Stop: "max_failures"}}, Failed},
		"killed":            {SandboxStatus{Loop: &LoopStatus{Killed: true}}, Failed},
		"nothing":           {SandboxStatus{State: "running"}, Idle},
		"paused":            {SandboxStatus{State: "paused", Loop: running("working")}, Paused},
		"lost by an engine": {SandboxStatus{State: "unknown"}, Unknown},
	} {
		assert.Check(t, tc.s.activity() == tc.want, "%s: %s", name, tc.s.activity())
	}
}

// What a loop does is known from its log and its process on this machine, without asking the
// sandbox.
func TestDescribeReadsFilesOnly(t *testing.T) {
	t.Parallel()
	git := func(top string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", top, "-c", "user.name=u", "-c", "user.email=u@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	top, at := t.TempDir(), time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)
	git(top, "init", "-q")
	git(top, "commit", "-q", "--allow-empty", "-m", "one")
	fetched, missing := git(top, "rev-parse", "HEAD"), strings.Repeat("ab", 20)

	h := host.Host{StateDir: t.TempDir()}
	d := &commands{}
	scope := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	l := host.Located{Sandbox: lifecycle.Sandbox{Name: "box", State: lifecycle.Running, Root: top, Scope: scope, Private: true}, Backend: host.Backend{Kind: "container", Driver: d}}
	held, err := h.NewRecord(host.Record{ID: "x", Command: []string{"ralph", "build"}, Scope: scope, Root: top, Sandbox: "box"})
	assert.NilError(t, err)
	defer held.Done(nil) // it is locked until then
	starting := describe(t.Context(), h, l, true)
	assert.Equal(t, starting.Activity, Working)
	assert.Equal(t, starting.Loop.Command, "build")
	assert.Assert(t, !starting.Loop.Orphaned)

	log, err := runlog.Create(h.LogsOf(l.Sandbox), runlog.Loop{Mode: "build", Branch: "main", Dispatch: "x", Started: at})
	assert.NilError(t, err)
	blocked := []denylog.Refusal{{Host: "example.com", Port: 443, Times: 2}}
	assert.NilError(t, log.Append(runlog.Iteration{N: 1, Commit: fetched, Commits: 1, Refused: blocked}))
	assert.NilError(t, log.Append(runlog.Iteration{N: 2, Commit: missing, Commits: 3, Refused: blocked}))
	assert.NilError(t, log.Append(runlog.Iteration{N: 3, Commit: "HEAD --evil", Commits: 5, Refused: []denylog.Refusal{{Host: "ev il", Times: 1}}}))
	cost := 1.5
	assert.NilError(t, log.SetNow(runlog.Now{
		N: 4, Tasks: []string{"a/1"}, Title: "Do it", Started: at, State: runlog.StateRateLimited, Since: at, Until: at.Add(time.Hour), Text: "5-hour limit", LastOutput: at,
		Loop: runlog.Usage{CostUSD: &cost}, Counts: runlog.Counts{Open: 2, Active: 1, Blocked: 1}, Limits: runlog.Limits{MaxCostUSD: 20},
	}))
	s := describe(t.Context(), h, l, true)
	assert.Equal(t, d.asked, 0)
	assert.Equal(t, s.Activity, RateLimited)
	assert.Equal(t, s.Loop.Title, "Do it")
	assert.Equal(t, s.Loop.Text, "5-hour limit")
	assert.Check(t, s.Loop.Until.Equal(at.Add(time.Hour)))
	assert.Equal(t, s.Loop.Counts.Left(), 4)
	assert.Equal(t, *s.Loop.Usage.CostUSD, 1.5)
	assert.Equal(t, s.Loop.Limits.MaxCostUSD, 20.)
	assert.DeepEqual(t, s.Blocked, []denylog.Refusal{{Host: "example.com", Port: 443, Times: 4}})
	assert.Equal(t, *s.Unfetched, 3)

	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "failed", ExitCode: 1, Error: "no\x1b[2J key"}))
	assert.NilError(t, h.SaveEngine("box", host.EngineRecord{Root: top}))
	s = describe(t.Context(), h, l, true)
	assert.Equal(t, s.Activity, Failed)
	assert.Equal(t, s.Loop.Error, "no key")
	assert.Equal(t, s.Loop.State, "", "it does not run")
	assert.Equal(t, d.asked, 0)
}
