package run

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// restarting is a driver whose engine answers only after some questions.
type restarting struct {
	lifecycle.Driver
	away  int // questions without an answer
	state lifecycle.State
}

func (r *restarting) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	if r.away--; r.away >= 0 {
		return lifecycle.Sandbox{}, fmt.Errorf("error during connect: %w", syscall.ECONNRESET)
	}
	return lifecycle.Sandbox{Name: "box", State: r.state}, nil
}

// A loop whose engine breaks the connection is started again, unless it still runs.
func TestLoopSurvivesItsEngine(t *testing.T) {
	broken := fmt.Errorf("asking how the command has ended: %w", syscall.ECONNRESET)
	for _, tc := range []struct {
		name   string
		state  lifecycle.State
		sb     lifecycle.Sandbox
		ended  error
		deaths int
		again  bool
		err    string
	}{
		{"killed with its connection", lifecycle.Running, lifecycle.Sandbox{Name: "box"}, ErrUnknownEnd, 0, true, ""},
		{"stopped", lifecycle.Stopped, lifecycle.Sandbox{Name: "box"}, ErrUnknownEnd, 0, true, ""},
		{"unknown", lifecycle.Running, lifecycle.Sandbox{Name: "box"}, broken, 0, false, "may still be running in sandbox box"},
		{"not started again yet", lifecycle.Stopped, lifecycle.Sandbox{}, broken, 1, true, broken.Error()},
		{"never started", lifecycle.Stopped, lifecycle.Sandbox{}, broken, 0, false, broken.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &said}
			r := &resumer{host: h, driver: &restarting{away: 2, state: tc.state}, command: host.BuildCommand, name: "box", logs: t.TempDir(), id: "x", deaths: tc.deaths}
			again, err := r.died(t.Context(), tc.sb, 0, tc.ended)
			assert.Equal(t, again, tc.again, "%v\n%s", err, said.String())
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
			} else {
				assert.NilError(t, err)
			}
		})
	}
}

// A loop that has died ends if the user stops its sandbox, also while it is restarted.
func TestStoppedLoopIsNotRestarted(t *testing.T) {
	for _, sb := range []lifecycle.Sandbox{{Name: "box"}, {}} {
		h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
		r := &resumer{host: h, driver: &restarting{state: lifecycle.Stopped}, command: host.BuildCommand, name: "box", logs: t.TempDir(), id: "x", deaths: 1}
		record, err := h.NewRecord(host.Record{ID: "x", Command: []string{"ralph", "build"}, Sandbox: "box"})
		assert.NilError(t, err)
		defer record.Done(nil)
		assert.NilError(t, h.RecordStop("box"))
		again, err := r.died(t.Context(), sb, exitKilled, nil)
		assert.Assert(t, !again)
		assert.Error(t, err, `sandbox box was stopped while "build" ran in it`)
	}
}
