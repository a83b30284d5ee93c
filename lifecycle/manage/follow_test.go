package manage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

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
	top := t.TempDir()
	d := &dispatching{ids: []string{"orphan"}}
	newFollower := func(id string) *follower {
		f := newFollower(h, sb.Name, top, id)
		f.driver, f.sb = d, sb
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

// A loop in a clone has not ended before its log is complete.
func TestFollowerWaitsForTheLogOfAClone(t *testing.T) {
	h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	sb := lifecycle.Sandbox{Name: "ralph-a", State: lifecycle.Running, ID: "1", Root: t.TempDir(), Clone: true}
	log, err := runlog.Create(sb.Root, runlog.Loop{Mode: "build", Dispatch: "x", Started: time.Now()})
	assert.NilError(t, err)
	f := newFollower(h, sb.Name, sb.Root, "x")
	f.driver, f.sb = &dispatching{}, sb
	_, done, err := f.done(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, !done)
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete", ExitCode: 3}))
	code, done, err := f.done(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, done)
	assert.Equal(t, code, 3)
}

// Exec loses its connection.
func (d *dispatching) Exec(context.Context, lifecycle.Sandbox, lifecycle.Process) (int, error) {
	return 0, io.ErrUnexpectedEOF
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
