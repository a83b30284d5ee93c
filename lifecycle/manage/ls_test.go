package manage

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Sandboxes whose engine does not answer are listed from their records, with a warning.
func TestListWithoutTheEngine(t *testing.T) {
	lost := errors.New("the line is down")
	big := host.Engine{Context: "big", Host: "ssh://big"}
	var said bytes.Buffer
	h := host.Host{
		Dir: t.TempDir(), StateDir: t.TempDir(), Stderr: &said, LookupEnv: func(string) (string, bool) { return "", false },
		Engine:     func() (host.API, error) { return nil, lost },
		Selected:   host.Engine{Context: "small", Host: "ssh://small"},
		SelectedBy: "DOCKER_CONTEXT",
		ConnectTo:  func(context.Context, host.Engine) (host.API, error) { return nil, lost },
	}
	assert.NilError(t, h.SaveEngine("other", host.EngineRecord{Engine: big, Root: "/other", MainRoot: "/other", Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}))
	assert.NilError(t, h.SaveEngine("mine", host.EngineRecord{Engine: h.Selected, Root: h.Dir, MainRoot: h.Dir}))

	out, err := exec.CommandContext(t.Context(), "git", "init", "-q", h.Dir).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, scopes.Section[map[string]string]("container").Write(h.StateDir, "mine", map[string]string{}))

	mine, err := Sandboxes(t.Context(), h, ListOptions{})
	assert.NilError(t, err)
	assert.Equal(t, len(mine), 1)
	assert.Equal(t, mine[0].State, string(lifecycle.Unknown))
	assert.Check(t, is.Contains(said.String(), "Warning: some sandboxes may be missing: the line is down (container driver)\n"))
	all, err := Sandboxes(t.Context(), h, ListOptions{All: true})
	assert.NilError(t, err)
	assert.Equal(t, len(all), 2)
}

// With --all, what is left of removed sandboxes is found, also if their worktrees are gone.
func TestListFormerScopes(t *testing.T) {
	var said bytes.Buffer
	h := host.Host{
		Dir: t.TempDir(), StateDir: t.TempDir(), Stderr: &said, LookupEnv: func(string) (string, bool) { return "", false },
		Engine: func() (host.API, error) { return nil, errors.New("no engine") },
	}
	gone := filepath.Join(t.TempDir(), "gone")
	names := map[string]string{}
	for _, branch := range []string{"logs", "tasks", "nothing", "elsewhere"} {
		wt := gitrepo.Worktree{Root: gone, Scope: gitrepo.Scope{Repo: "a/b", Branch: branch}}
		name, err := h.SandboxName(wt)
		assert.NilError(t, err)
		names[branch] = name
		assert.NilError(t, h.SaveOwner(name, host.OwnerOf(wt)))
		if branch == "tasks" {
			store, err := backlogs.Open(t.Context(), h, wt)
			assert.NilError(t, err)
			assert.NilError(t, store.Create(t.Context(), backlog.NewTask{Slug: "a", Title: "A"}))
			assert.NilError(t, store.Close())
		} else if branch != "nothing" {
			_, err := runlog.Create(h.LogsDir(name), runlog.Loop{Mode: "build", Started: time.Now()})
			assert.NilError(t, err)
		}
		if branch == "logs" { // it shares them with an ephemeral sandbox
			assert.NilError(t, h.SaveOwner("ralph-ephemeral", host.OwnerOf(wt)))
		}
	}
	other := host.Engine{Context: "big", Host: "ssh://big"}
	assert.NilError(t, h.SaveEngine(names["elsewhere"], host.EngineRecord{Engine: other, Root: gone, Scope: gitrepo.Scope{Repo: "a/b", Branch: "elsewhere"}}))

	list := func(opts ListOptions) (found []string) {
		t.Helper()
		all, err := Sandboxes(t.Context(), h, opts)
		assert.NilError(t, err)
		for _, s := range all {
			found = append(found, s.Branch+": "+s.State)
			assert.Check(t, s.Gone)
			assert.Equal(t, s.Workspace, "")
		}
		return found
	}
	former := []string{"logs: not found", "tasks: not found"}
	assert.DeepEqual(t, list(ListOptions{All: true}), []string{"elsewhere: unknown"})
	assert.DeepEqual(t, list(ListOptions{All: true, Former: true}), append([]string{"elsewhere: unknown"}, former...))
	all, err := Sandboxes(t.Context(), h, ListOptions{All: true, Names: true, Former: true})
	assert.NilError(t, err)
	assert.Equal(t, len(all), 1)
}
