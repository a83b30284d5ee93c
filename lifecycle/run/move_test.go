package run

import (
	"context"
	"errors"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// movedBox is the old engine of a sandbox. Its calls can be interrupted before and after each effect.
type movedBox struct {
	lifecycle.Driver
	t         *testing.T
	h         host.Host
	sb        lifecycle.Sandbox
	container bool
	volume    bool
	saved     bool
	busy      bool
	left      int // steps before an interruption; negative for none
}

var errInterrupted = errors.New("cut")

// do interrupts before and after an effect.
func (b *movedBox) do(effect func()) error {
	for _, effect := range []func(){func() {}, effect} {
		if b.left == 0 {
			return errInterrupted
		}
		b.left--
		effect()
	}
	if b.left == 0 {
		return errInterrupted
	}
	return nil
}

func (b *movedBox) save(context.Context, lifecycle.Sandbox) error {
	return b.do(func() {
		b.saved = true
		assert.NilError(b.t, gitsync.Abandon(b.h.StateDir, b.sb.Name)) // its commits were fetched
	})
}

func (b *movedBox) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	if !b.container {
		return lifecycle.Sandbox{State: lifecycle.NotFound}, nil
	}
	return b.sb, nil
}

func (b *movedBox) Busy(context.Context, lifecycle.Sandbox) (bool, error) { return b.busy, nil }

func (b *movedBox) HasVolume(context.Context, string) (bool, error) { return b.volume, nil }

func (b *movedBox) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := b.do(func() { b.container = false }); err != nil {
		return err
	}
	return b.RemoveGit(ctx, sb.Name)
}

func (b *movedBox) RemoveGit(context.Context, string) error {
	if err := b.do(func() { b.volume = false }); err != nil {
		return err
	}
	return b.do(func() { assert.NilError(b.t, gitsync.Forget(b.h.StateDir, b.sb.Name)) })
}

func newMove(t *testing.T) (move, *movedBox) {
	t.Helper()
	h := host.Host{StateDir: t.TempDir(), Stderr: os.Stderr}
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
	b := &movedBox{
		t: t, h: h, container: true, volume: true, left: -1,
		sb: lifecycle.Sandbox{Name: "box", State: lifecycle.Running, Scope: wt.Scope, Root: wt.Root, Private: true, Clone: true},
	}
	m := move{host: h, driver: b, save: b.save}
	m.wt, m.name, m.Kind, m.Engine = wt, "box", config.DriverContainer, host.Engine{Context: "here", Host: "unix:///here"}
	m.spec = lifecycle.Spec{Name: "box", Scope: wt.Scope, Root: wt.Root}
	m.from = &host.EngineRecord{Engine: host.Engine{Context: "big", Host: "ssh://big"}}
	assert.NilError(t, h.SaveEngine("box", *m.from))
	return m, b
}

// After an interruption at any step, nothing was removed that was not saved, and the same command
// completes the move.
func TestInterruptedMoveToAnotherEngine(t *testing.T) {
	for steps := 0; ; steps++ {
		m, b := newMove(t)
		b.left = steps
		err := m.run(t.Context())
		r, found := m.host.EngineRecord("box")
		assert.Assert(t, found)
		if err == nil {
			assert.Assert(t, r.Engine.Same(m.Engine))
			assert.Assert(t, steps > 6, "%d steps", steps)
			return
		}
		assert.ErrorIs(t, err, errInterrupted)
		assert.Assert(t, r.Engine.Same(m.from.Engine), "after %d steps", steps)
		assert.Assert(t, b.saved || b.container && b.volume, "after %d steps", steps)
		b.left = -1
		assert.NilError(t, m.run(t.Context()), "after %d steps", steps)
		r, _ = m.host.EngineRecord("box")
		assert.Assert(t, r.Engine.Same(m.Engine))
		assert.Assert(t, !b.container && !b.volume && b.saved, "after %d steps", steps)
		assert.Assert(t, !gitsync.Saved(m.host.StateDir, "box"), "the state of the old sandbox stays")
	}
}

func TestMoveKeepsWhatItCannotSave(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*move, *movedBox)
		err    string
	}{
		{"a command runs", func(_ *move, b *movedBox) { b.busy = true }, "a command is still running in it"},
		{"another version has created it", func(m *move, _ *movedBox) {
			m.save = func(context.Context, lifecycle.Sandbox) error { return nil }
		}, "its commits cannot be fetched"},
		{"its container was removed", func(_ *move, b *movedBox) { b.container = false }, "may have the only copy of commits"},
		{"it is another worktree's", func(_ *move, b *movedBox) { b.sb.Root = b.t.TempDir() }, "belongs to a/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, b := newMove(t)
			tc.change(&m, b)
			assert.ErrorContains(t, m.run(t.Context()), tc.err)
			assert.Assert(t, b.volume)
			r, _ := m.host.EngineRecord("box")
			assert.Assert(t, r.Engine.Same(m.from.Engine))
		})
	}
	m, b := newMove(t)
	use, err := m.host.LockShared(t.Context(), "box")
	assert.NilError(t, err)
	assert.ErrorContains(t, m.run(t.Context()), "another command is using it")
	assert.Assert(t, b.container)
	use.Leave()
}
