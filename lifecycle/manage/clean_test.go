package manage

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestRemoveSandbox(t *testing.T) {
	there := t.TempDir()
	for _, tc := range []struct {
		name   string
		sb     lifecycle.Sandbox
		busy   bool
		failed error
		inUse  bool
		want   string
	}{
		{name: "idle", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}},
		{name: "stopped", sb: lifecycle.Sandbox{State: lifecycle.Stopped, Root: there}, busy: true},
		{name: "busy", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, busy: true, want: "a command is still running in it"},
		{name: "no answer", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, failed: errors.New("no answer"), want: "keeping sandbox ralph-a-b-main: no answer"},
		{name: "no answer, without a worktree", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there + "/gone"}, failed: errors.New("no answer")},
		{name: "unknown", sb: lifecycle.Sandbox{State: lifecycle.Unknown, Why: "no list", Root: there}, want: "its state is unknown: no list"},
		{name: "in use", sb: lifecycle.Sandbox{State: lifecycle.Running, Root: there}, inUse: true, want: "another command is using it"},
		{
			name: "unfetched commits", sb: lifecycle.Sandbox{State: lifecycle.Stopped, Root: there + "/gone", Private: true},
			want: "it may have the only copy of its commits",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &stderr}
			d := &removable{busy: tc.busy, err: tc.failed}
			tc.sb.Name, tc.sb.Scope = "ralph-a-b-main", gitrepo.Scope{Repo: "a/b", Branch: "main"}
			if tc.inUse {
				use, err := h.LockShared(t.Context(), tc.sb.Name)
				assert.NilError(t, err)
				defer use.Leave()
			}
			err := RemoveSandbox(t.Context(), h, host.Located{Sandbox: tc.sb, Backend: host.Backend{Kind: "container", Driver: d}}, false)
			if tc.want != "" {
				assert.ErrorContains(t, err, tc.want)
				assert.Equal(t, d.removed, 0)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, d.removed, 1)
			assert.Assert(t, is.Contains(stderr.String(), "Removed sandbox ralph-a-b-main (a/b, branch main)"))
		})
	}
}

// The refs of a removed sandbox go once their commits are merged; others are kept and named.
func TestRemoveSandboxForgetsRefs(t *testing.T) {
	h, stderr := treeHost(t)
	for name, commit := range map[string]string{"main": "HEAD", "@base": "HEAD", "side": gitTree(t, h.Dir, "commit-tree", "-m", "unmerged", "HEAD^{tree}")} {
		gitTree(t, h.Dir, "update-ref", "refs/ralph/ralph-x/"+name, commit)
	}
	gitTree(t, h.Dir, "update-ref", "refs/ralph/ralph-y/main", "HEAD")
	refs := func() string { return gitTree(t, h.Dir, "for-each-ref", "--format=%(refname)", "refs/ralph") }

	box := host.Located{
		Sandbox: lifecycle.Sandbox{Name: "ralph-x", Root: h.Dir, MainRoot: h.Dir, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}},
		Backend: host.Backend{Kind: config.DriverContainer, Driver: &removable{}},
	}
	assert.NilError(t, RemoveSandbox(t.Context(), h, box, false))
	assert.Equal(t, refs(), "refs/ralph/ralph-x/side\nrefs/ralph/ralph-y/main")
	assert.Assert(t, is.Contains(stderr.String(), "Keeping refs/ralph/ralph-x/side: commits of the sandbox that are on no branch\n"))

	gitTree(t, h.Dir, "branch", "merged", "refs/ralph/ralph-x/side")
	assert.NilError(t, RemoveSandbox(t.Context(), h, box, false))
	assert.Equal(t, refs(), "refs/ralph/ralph-y/main")
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

func TestCleanChoice(t *testing.T) {
	box := func(name string) host.Located { return host.Located{Sandbox: lifecycle.Sandbox{Name: name}} }
	for _, tc := range []struct {
		name, answer string
		opts         CleanOptions
		mine         []host.Located
		all          bool
		err          string
	}{
		{name: "this one", answer: "1", mine: []host.Located{box("a")}},
		{name: "all", answer: "2", mine: []host.Located{box("a"), box("b")}, all: true},
		{name: "nothing", answer: "", err: "canceled"},
		{name: "nonsense", answer: "12", err: "canceled"},
		{name: "by force", opts: CleanOptions{Force: true}, answer: "x", mine: []host.Located{box("a")}},
		{name: "by name", opts: CleanOptions{Names: []string{"a"}}, answer: "x", mine: []host.Located{box("a")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &cleanup{CleanOptions: tc.opts, selected: []host.Located{box("a")}, others: []host.Located{box("b")}}
			c.host.Ask = func(context.Context, string) (string, error) { return tc.answer, nil }
			err := c.choose(t.Context())
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, boxNames(c.selected), boxNames(tc.mine))
			assert.Equal(t, c.All, tc.all)
		})
	}
}
