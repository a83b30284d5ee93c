package commits

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// cloned is a sandbox whose clone is a directory.
type cloned struct {
	lifecycle.Driver
	dir     string
	running [][]string
}

func (c *cloned) Busy(context.Context, lifecycle.Sandbox) (bool, error) {
	return len(c.running) > 0, nil
}

func (c *cloned) Dispatches(context.Context, lifecycle.Sandbox) (all []lifecycle.Dispatch, _ error) {
	for _, command := range c.running {
		all = append(all, lifecycle.Dispatch{Command: command})
	}
	return all, nil
}

func (c *cloned) Exec(ctx context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.dir, p.Stdin, p.Stdout, p.Stderr
	err := cmd.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// A command beside a loop, whose own command was killed, takes no commit of a run that has not ended: the
// agent may amend it.
func TestFetchBesideALoop(t *testing.T) {
	loop, shell := []string{"ralph", "build"}, []string{"sh"}
	for _, tc := range []struct {
		name    string
		running [][]string
		want    string
	}{
		{"a loop", [][]string{loop}, "ended"},
		{"a loop and a shell", [][]string{shell, loop}, "ended"},
		{"a shell", [][]string{shell}, "running"},
		{"nothing", nil, "running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnded(t)
			c := &cloned{dir: filepath.Join(t.TempDir(), "clone"), running: tc.running}
			e.git(t, "clone", "-q", e.wt.Root, c.dir)
			commit := func(subject string) string {
				e.git(t, "-C", c.dir, "commit", "-q", "--allow-empty", "-m", subject)
				return e.git(t, "-C", c.dir, "rev-parse", "HEAD")
			}
			e.log(t, e.loop.ID, runlog.Iteration{N: 1, Commit: commit("ended"), Commits: 1, Started: time.Now()})
			commit("running")
			repo, err := gitsync.Open(e.wt, e.sb.Name, e.h.StateDir)
			assert.NilError(t, err)
			e.state(t, map[string]any{"branch": "main", "synced": e.git(t, "rev-parse", "main"), "tips": map[string]string{"refs/heads/main": e.git(t, "rev-parse", "main")}})
			e.git(t, "update-ref", "refs/ralph/ralph-test/@base", "main")
			g := &Git{Host: e.h, Driver: c, Repo: repo, aside: repo}

			assert.NilError(t, g.Fetch(t.Context(), e.sb), e.stderr.String())

			assert.Equal(t, e.git(t, "log", "-1", "--format=%s", "main"), tc.want, e.stderr.String())
		})
	}
}
