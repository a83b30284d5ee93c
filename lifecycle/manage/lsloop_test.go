package manage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestLoopCommand(t *testing.T) {
	for _, tc := range []struct {
		args []string
		name string
		loop bool
	}{
		{[]string{"ralph", "build", "-n", "3"}, "build", true},
		{[]string{"/opt/ralph/0123/ralph", "plan"}, "plan", true},
		{[]string{"/home/agent/.ralph/bin/ralph", "_something", "ID", "=ralph", "=build"}, "_something", false},
		{[]string{"/bin/bash", "/src/ralph", "build"}, "build", true},
		{[]string{"ralph", "task", "list"}, "task", false},
		{[]string{"/usr/bin/claude", "--resume"}, "claude", false},
		{[]string{"ralph"}, "ralph", false},
		{[]string{"ev\x1bil"}, "evl", false},
		{nil, "?", false},
	} {
		name, loop := host.LoopCommand(tc.args)
		assert.Equal(t, name, tc.name)
		assert.Equal(t, loop, tc.loop, "%q", tc.args)
	}
}

func FuzzLoopCommand(f *testing.F) {
	f.Add("ralph", "build")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		name, loop := host.LoopCommand([]string{a, b})
		assert.Assert(t, !loop || name == "plan" || name == "build")
	})
}

// commands is a driver in whose sandbox these run.
type commands struct {
	lifecycle.Driver
	running []lifecycle.Dispatch
	asked   int
	err     error
}

func (c *commands) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	c.asked++
	return c.running, c.err
}

func TestLoopOf(t *testing.T) {
	noon := time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)
	h := host.Host{StateDir: t.TempDir()}
	d := &commands{}
	l := host.Located{Sandbox: lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running, Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}, Backend: host.Backend{Driver: d}}
	ask := func() *LoopStatus {
		t.Helper()
		status, err := loopOf(t.Context(), h, l)
		assert.NilError(t, err)
		return status
	}
	assert.Assert(t, ask() == nil)
	begin := func(branch, id string, at time.Time) *runlog.Log {
		sb := l.Sandbox
		sb.Scope.Branch = branch
		log, err := runlog.Create(h.LogsOf(sb), runlog.Loop{Mode: "build", Branch: branch, Dispatch: id, Started: at})
		assert.NilError(t, err)
		return log
	}
	begin("other", "o", noon)
	assert.Assert(t, ask() == nil, "it is another branch's")
	assert.Equal(t, d.asked, 0, "nothing tells of anything that runs")

	log := begin("main", "x", noon.Add(time.Hour))
	assert.NilError(t, log.SetNow(runlog.Now{N: 2, Tasks: []string{"auth/\x1b[2J"}}))
	assert.Assert(t, ask().Killed, "it does not run and has no end")
	assert.Equal(t, d.asked, 1)
	d.running = []lifecycle.Dispatch{{ID: "x", Command: []string{"ralph", "build"}, Since: noon}, {ID: "y", Command: []string{"sh"}}}
	status := ask()
	assert.Equal(t, status.Command, "build")
	assert.Equal(t, status.Iteration, 2)
	assert.Equal(t, status.Others, 1)
	assert.DeepEqual(t, status.Tasks, []string{"auth/"})
	assert.Assert(t, status.Running && status.Since.Equal(noon))
	assert.Assert(t, status.Orphaned, "no process on this machine has its session")

	d.err = errors.New("no answer")
	_, err := loopOf(t.Context(), h, l)
	assert.ErrorContains(t, err, "no answer")
	d.err, d.asked = nil, 0
	assert.NilError(t, log.Append(runlog.Iteration{N: 2, Tasks: []string{"a"}}))
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "stall", ExitCode: 7}))
	status = ask()
	assert.Equal(t, status.Stop, "stall")
	assert.Equal(t, *status.ExitCode, 7)
	assert.Equal(t, d.asked, 0)
	record, err := h.NewRecord(host.Record{ID: "y", Command: []string{"ralph", "shell"}, Scope: l.Sandbox.Scope, Root: l.Sandbox.Root, Sandbox: l.Sandbox.Name})
	assert.NilError(t, err)
	d.running = d.running[1:]
	assert.Equal(t, ask().Command, "shell", "a process on this machine accompanies it")
	l.Sandbox.State = lifecycle.Stopped
	assert.Equal(t, ask().Command, "shell", "its process starts the sandbox")
	l.Sandbox.State = lifecycle.Running
	assert.Equal(t, d.asked, 0)
	assert.NilError(t, record.Lock.Close())
	assert.Equal(t, ask().Command, "sh", "its process was killed, it may run")
	assert.Assert(t, !ask().Orphaned, "it is no loop")
	d.asked--
	assert.Equal(t, d.asked, 1)
	l.Sandbox.State = lifecycle.Stopped
	assert.Equal(t, ask().Stop, "stall")
}

func TestSandboxesOfTheCurrentDirectory(t *testing.T) {
	main := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	in := host.Here{Inside: true, Worktree: gitrepo.Worktree{Root: "/src", MainRoot: "/src", Scope: main}}
	linked := host.Here{Inside: true, Worktree: gitrepo.Worktree{Root: "/src/.worktrees/x", MainRoot: "/src", Scope: gitrepo.Scope{Repo: "a/b", Branch: "x"}}}
	nowhere := host.Here{Inside: true, Worktree: gitrepo.Worktree{Root: "/src", MainRoot: "/src"}}
	gone := host.Here{Dir: "/src"}
	elsewhere, clone := host.Here{Dir: "/"}, t.TempDir()
	for _, tc := range []struct {
		name         string
		at           host.Here
		sb           lifecycle.Sandbox
		has, current bool
	}{
		{"this one", in, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: main}, true, true},
		{"from a worktree", linked, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: main}, true, false},
		{"another branch", in, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: gitrepo.Scope{Repo: "a/b", Branch: "x"}}, true, false},
		{"another clone", in, lifecycle.Sandbox{Root: clone, MainRoot: clone, Scope: main}, false, false},
		{"of a worktree that is not here", in, lifecycle.Sandbox{Root: "/other", MainRoot: "/other", Scope: main}, false, false},
		{"of another client, which is not here", in, lifecycle.Sandbox{Root: "/other", MainRoot: "/other", Scope: main, OtherClient: "una@laptop"}, false, false},
		{"a microVM", in, lifecycle.Sandbox{Root: "/src/.worktrees/x", Scope: gitrepo.Scope{Repo: "a/b", Branch: "x"}}, true, false},
		{"a microVM of another repository", in, lifecycle.Sandbox{Root: "/x", Scope: gitrepo.Scope{Repo: "c/d", Branch: "main"}}, false, false},
		{"without a branch", nowhere, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: main}, true, false},
		{"a repository that is gone", gone, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: main}, true, true},
		{"a worktree of it", gone, lifecycle.Sandbox{Root: "/src/.worktrees/x", MainRoot: "/src", Scope: main}, true, false},
		{"elsewhere", elsewhere, lifecycle.Sandbox{Root: "/src", MainRoot: "/src", Scope: main}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.at.Has(tc.sb), tc.has)
			assert.Equal(t, tc.at.Current(tc.sb), tc.current)
		})
	}
}
