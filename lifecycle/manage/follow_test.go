package manage

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestKeysWhileAttached(t *testing.T) {
	pressed := make(chan error, 8)
	readKeys(strings.NewReader("a\x03b\x03"), pressed)
	assert.Equal(t, len(pressed), 2)
	assert.Equal(t, <-pressed, errInterrupt)
}

func TestFollower(t *testing.T) {
	h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	sb := lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running, ID: "1"}
	d := &dispatching{ids: []string{"orphan"}}
	newFollower := func(id string) *follower {
		f := newFollower(h, sb.Name, id)
		f.at = host.Located{Sandbox: sb, Backend: host.Backend{Driver: d}}
		return f
	}
	alive, err := h.NewRecord(host.Record{ID: "alive", Command: []string{"ralph", "build"}, Scope: sb.Scope, Root: sb.Root, Sandbox: sb.Name})
	assert.NilError(t, err)
	orphan, err := h.NewRecord(host.Record{ID: "orphan", Command: []string{"ralph", "build"}, Scope: sb.Scope, Root: sb.Root, Sandbox: sb.Name})
	assert.NilError(t, err)
	orphan.Done(errors.New("killed"))
	for _, id := range []string{"alive", "orphan"} {
		_, done, err := newFollower(id).done(t.Context())
		assert.NilError(t, err)
		assert.Check(t, !done, id)
	}
	d.ids = nil
	_, done, err := newFollower("orphan").done(t.Context())
	assert.ErrorIs(t, err, run.ErrUnknownEnd)
	assert.Check(t, done)
	assert.NilError(t, h.SaveEnd(sb.Name, host.End{ID: "alive", ExitCode: 7}))
	alive.Done(nil)
	code, done, err := newFollower("alive").done(t.Context())
	assert.NilError(t, err)
	assert.Check(t, done)
	assert.Equal(t, code, 7)
}

// A loop that this command serves has written its end, and waits for the answer.
func TestLeftLoopIsFollowedUntilItsProcessEnds(t *testing.T) {
	h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	sb := lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running, ID: "1"}
	loopLog(t, h.LogsDir(sb.Name), "orphan", "hello\n", 3)
	log, err := runlog.Find(h.LogsDir(sb.Name), runlog.Any)
	assert.NilError(t, err)
	defer log.Close()
	orphan, err := h.NewRecord(host.Record{ID: "orphan", Command: []string{"ralph", "build"}, Sandbox: sb.Name})
	assert.NilError(t, err)
	orphan.Done(errors.New("killed"))
	d := &dispatching{ids: []string{"orphan"}}
	f := newFollower(h, sb.Name, "orphan")
	f.at = host.Located{Sandbox: sb, Backend: host.Backend{Driver: d}}
	_, done, err := loopDone(t.Context(), log, f)
	assert.NilError(t, err)
	assert.Check(t, !done)
	d.ids = nil
	code, done, err := loopDone(t.Context(), log, f)
	assert.NilError(t, err)
	assert.Check(t, done)
	assert.Equal(t, code, 3)
}

// dispatching is a driver whose sandboxes run what it is told.
type dispatching struct {
	lifecycle.Driver
	ids []string
}

func (d *dispatching) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	var all []lifecycle.Dispatch
	for _, id := range d.ids {
		all = append(all, lifecycle.Dispatch{ID: id})
	}
	return all, nil
}
