package dispatch

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestRemovingASandbox(t *testing.T) {
	there := t.TempDir()
	for _, tc := range []struct {
		name    string
		sb      lifecycle.Sandbox
		busy    bool
		failed  error
		attends bool
		want    string
	}{
		{name: "at rest", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}},
		{name: "stopped", sb: lifecycle.Sandbox{State: lifecycle.Stopped, Root: there}, busy: true},
		{name: "busy", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, busy: true, want: "was kept: something runs in it"},
		{name: "silent", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, failed: errors.New("no answer"), want: "was kept: no answer"},
		{name: "silent without a work tree", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there + "/gone"}, failed: errors.New("no answer")},
		{name: "unknown", sb: lifecycle.Sandbox{State: lifecycle.Unknown, Why: "no list", Root: there}, want: "its state is unknown: no list"},
		{name: "in use", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, attends: true, want: "another command works with it"},
		{
			name: "commits in it alone", sb: lifecycle.Sandbox{State: lifecycle.Stopped, Root: there + "/gone", Private: true},
			want: "was kept, as it may have the only copy of its commits",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := Host{StateDir: t.TempDir(), Stderr: &stderr}
			d := &removable{busy: tc.busy, err: tc.failed}
			tc.sb.Name, tc.sb.Scope = "ralph-a-b-main", gitrepo.Scope{Repo: "a/b", Branch: "main"}
			if tc.attends {
				leave, err := h.attend(t.Context(), tc.sb.Scope)
				assert.NilError(t, err)
				defer leave()
			}
			err := h.removeBox(t.Context(), located{tc.sb, place{kind: "container", driver: d}}, false)
			if tc.want != "" {
				assert.ErrorContains(t, err, tc.want)
				assert.Equal(t, d.removed, 0)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, d.removed, 1)
			assert.Assert(t, is.Contains(stderr.String(), "Removed the sandbox ralph-a-b-main (a/b, branch main)"))
		})
	}
}

// removable is a driver with one sandbox.
type removable struct {
	lifecycle.Driver
	busy    bool
	err     error
	removed int
}

func (r *removable) Busy(context.Context, lifecycle.Sandbox) (bool, error) { return r.busy, r.err }

func (r *removable) Remove(context.Context, lifecycle.Sandbox) error { r.removed++; return nil }

func (r *removable) Manual(name string) lifecycle.Manual {
	return lifecycle.Manual{Remove: "remove " + name}
}

func TestWhichSandboxesToClean(t *testing.T) {
	box := func(name string) located { return located{sb: lifecycle.Sandbox{Name: name}} }
	for _, tc := range []struct {
		name, answer string
		opts         SandboxClean
		mine         []located
		all          bool
		err          string
	}{
		{name: "this one", answer: "1", mine: []located{box("a")}},
		{name: "all", answer: "2", mine: []located{box("a"), box("b")}, all: true},
		{name: "nothing", answer: "", err: "nothing was removed"},
		{name: "nonsense", answer: "12", err: "nothing was removed"},
		{name: "by force", opts: SandboxClean{Force: true}, answer: "x", mine: []located{box("a")}},
		{name: "by name", opts: SandboxClean{Names: []string{"a"}}, answer: "x", mine: []located{box("a")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &cleaning{SandboxClean: tc.opts, mine: []located{box("a")}, others: []located{box("b")}}
			c.host.Ask = func(context.Context, string) (string, error) { return tc.answer, nil }
			err := c.choose(t.Context())
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, boxNames(c.mine), boxNames(tc.mine))
			assert.Equal(t, c.All, tc.all)
		})
	}
}

func TestWhoWorksWithASandboxIsWaitedFor(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	sb := lifecycle.Sandbox{Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
	one, err := h.attend(t.Context(), sb.Scope)
	assert.NilError(t, err)
	two, err := h.attend(t.Context(), sb.Scope)
	assert.NilError(t, err)
	leave, err := h.exclude(t.Context(), sb, 100*time.Millisecond)
	assert.NilError(t, err)
	assert.Assert(t, leave == nil)
	one()
	two()
	leave, err = h.exclude(t.Context(), sb, time.Minute)
	assert.NilError(t, err)
	came := make(chan error)
	go func() {
		three, err := h.attend(t.Context(), sb.Scope)
		if err == nil {
			three()
		}
		came <- err
	}()
	leave()
	assert.NilError(t, <-came)
}

func TestACommandWithASandboxOfItsOwnLeavesIt(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	mine := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	spec := lifecycle.Spec{Name: "ralph-a-b-main-x", Scope: mine, Root: "/src", Ephemeral: true}
	leave, err := h.enter(t.Context(), place{driver: &listed{}}, gitrepo.Worktree{Scope: mine}, spec)
	assert.NilError(t, err)
	taken, err := h.exclude(t.Context(), lifecycle.Sandbox{Scope: mine}, 0)
	assert.NilError(t, err)
	assert.Assert(t, taken == nil)
	leave()
	taken, err = h.exclude(t.Context(), lifecycle.Sandbox{Scope: mine}, 0)
	assert.NilError(t, err)
	assert.Assert(t, taken != nil)
	taken()
}
