package manage

import (
	"bytes"
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// obeying is a driver with one sandbox, whose loop exits on the first exec, unless
// it is deaf.
type obeying struct {
	lifecycle.Driver
	running []lifecycle.Dispatch
	deaf    bool
	brief   bool // the processes exit after the first call of Dispatches
	execs   [][]string
	stopped bool
	state   lifecycle.State // running if empty
	onExec  func()
}

func (o *obeying) Start(context.Context, lifecycle.Sandbox) error {
	o.state = lifecycle.Running
	return nil
}

func (o *obeying) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	running := o.running
	if o.brief {
		o.running = nil
	}
	return running, nil
}

func (o *obeying) Lookup(_ context.Context, name string) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{Name: name, State: cmp.Or(o.state, lifecycle.Running)}, nil
}

func (o *obeying) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	o.execs = append(o.execs, p.Args)
	if o.onExec != nil {
		o.onExec()
	}
	if !o.deaf {
		o.running = nil
	}
	return 0, nil
}

func (o *obeying) Stop(context.Context, lifecycle.Sandbox) error { o.stopped = true; return nil }

func (o *obeying) ListCommand() string { return "list" }

func TestStop(t *testing.T) {
	build, shell := []string{"/opt/ralph/x/ralph", "build"}, []string{"ralph", "shell"}
	for _, tc := range []struct {
		name    string
		id      string
		command []string
		state   lifecycle.State
		now     bool
		brief   bool
		exec    []string
		stopped bool
		says    string
		err     string
	}{
		{name: "a loop", command: build, state: lifecycle.Running, exec: []string{"ralph", "_finish", "x"}, stopped: true, says: `"build" has ended`},
		{name: "a loop, now", command: build, state: lifecycle.Running, now: true, exec: []string{"ralph", "_signal", "TERM", "x"}, stopped: true, says: `Ending "build"`},
		{name: "a loop's last copy of its backlog", command: []string{"ralph", "task", "_export"}, brief: true, state: lifecycle.Running, stopped: true},
		{name: "a fetch of its commits", id: lifecycle.NewServiceID(), command: []string{"sh", "-c", "git bundle"}, brief: true, state: lifecycle.Running, stopped: true},
		{name: "something else", command: shell, state: lifecycle.Running, err: `"shell" is still active`},
		{name: "something else, now", command: shell, state: lifecycle.Running, now: true, exec: []string{"ralph", "_signal", "TERM", "x"}, stopped: true},
		{name: "nothing", state: lifecycle.Running, stopped: true, says: "Nothing runs in ralph-a"},
		{name: "stopped", state: lifecycle.Stopped, says: "it is stopped"},
		{name: "paused", command: build, state: lifecycle.Paused, exec: []string{"ralph", "_finish", "x"}, stopped: true, says: "Unpausing sandbox ralph-a"},
		{name: "unknown", state: lifecycle.Unknown, err: `sandbox ralph-a is unknown`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
			d := &obeying{brief: tc.brief}
			if tc.command != nil {
				d.running = []lifecycle.Dispatch{{ID: cmp.Or(tc.id, "x"), Command: tc.command}}
			}
			sb := lifecycle.Sandbox{Name: "ralph-a", State: tc.state, Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
			err := stop(t.Context(), h, host.Located{Sandbox: sb, Backend: host.Backend{Driver: d}}, tc.now)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
			} else {
				assert.NilError(t, err)
			}
			assert.Equal(t, d.stopped, tc.stopped)
			assert.Assert(t, is.Contains(stderr.String(), tc.says))
			if tc.exec != nil {
				assert.DeepEqual(t, d.execs, [][]string{tc.exec})
			}
		})
	}
}

// A loop whose sandbox was killed, and which is about to restart it, has ended when the stop
// returns.
func TestStopEndsALoopThatWouldRestart(t *testing.T) {
	var stderr bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
	record, err := h.NewRecord(host.Record{ID: "x", Command: []string{"ralph", "build"}, Sandbox: "ralph-a"})
	assert.NilError(t, err)
	d := &obeying{state: lifecycle.Stopped}
	sb := lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Stopped}
	stopped := make(chan error)
	go func() {
		stopped <- stop(t.Context(), h, host.Located{Sandbox: sb, Backend: host.Backend{Driver: d}}, false)
	}()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if h.Stopped("ralph-a", "x") {
			return poll.Success()
		}
		return poll.Continue("no stop is recorded")
	})
	record.Done(nil)
	assert.NilError(t, <-stopped)
	loops, err := h.LiveLoops("ralph-a")
	assert.NilError(t, err)
	assert.Equal(t, len(loops), 0)
	assert.Assert(t, is.Contains(stderr.String(), `Waiting for "ralph build" to end, which uses sandbox ralph-a`))
}

// Ctrl+C while waiting leaves the loop and its sandbox running.
func TestStopCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &obeying{running: []lifecycle.Dispatch{{ID: "x", Command: []string{"ralph", "build"}}}, deaf: true, onExec: cancel}
	h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	err := stop(ctx, h, host.Located{Sandbox: lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running, Root: t.TempDir()}, Backend: host.Backend{Driver: d}}, false)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Assert(t, !d.stopped)
}

// The loop ignores the request to finish.
func TestStopAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
		driver := &obeying{deaf: true, running: []lifecycle.Dispatch{{ID: "x", Command: []string{"ralph", "build"}}}}
		driver.onExec = func() { driver.deaf = len(driver.execs) < 2 }
		l := host.Located{Sandbox: lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running}, Backend: host.Backend{Driver: driver}}
		timeout := time.Minute
		assert.NilError(t, stopWithin(t.Context(), h, l, StopOptions{Timeout: &timeout}))
		assert.Check(t, is.Contains(stderr.String(), "Stopping ralph-a: it still runs after 1m0s"))
		assert.DeepEqual(t, driver.execs[1][1:3], []string{"_signal", "TERM"})
		assert.Check(t, driver.stopped)
	})
}
