//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// listed is what "docker ralph ls" prints as JSON.
func (w *world) listed(t *testing.T, flags ...string) []manage.SandboxStatus {
	t.Helper()
	var list []manage.SandboxStatus
	out := w.ok(t, append([]string{"ls", "--format", "json"}, flags...)...)
	assert.NilError(t, json.Unmarshal([]byte(out), &list), out)
	return list
}

func TestLsTellsOfSandboxesAndTheirLoops(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		assert.Equal(t, len(w.listed(t)), 0)
		w.plan(t, slowTask())
		idle := w.listed(t)
		assert.Equal(t, len(idle), 1)
		assert.Equal(t, idle[0].Driver, w.driver)
		assert.Equal(t, idle[0].State, "running")
		assert.Assert(t, idle[0].Loop == nil && idle[0].Current && !idle[0].Gone)

		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		eventually(t, func() error { // the loop notes now and then which task it is at
			if l := w.listed(t)[0].Loop; l == nil || !l.Running || len(l.Tasks) == 0 {
				return errors.New("no task is shown")
			}
			return nil
		})
		loop := w.listed(t)[0].Loop
		assert.Equal(t, loop.Command, "build")
		assert.Equal(t, loop.Iteration, 1)
		assert.DeepEqual(t, loop.Tasks, []string{"slow"})
		table := w.ok(t, "ls")
		sb := w.sandbox(t)
		assert.Assert(t, is.Regexp(`(?m)^NAME +SCOPE +DRIVER +AGENT +STATE +LOOP +WORKTREE +IMAGE$`, table))
		assert.Assert(t, is.Regexp(`(?m)^`+sb.Name+` \(current\) +`+w.slug+`:main +`+w.driver+` +shell +running +build #1 slow for .+ +`+w.repo+` +\S+$`, table))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 0)

		loop = w.listed(t)[0].Loop
		assert.Assert(t, !loop.Running && loop.Ended != nil)
		assert.Equal(t, loop.Stop, "complete")
		assert.Equal(t, w.ok(t, "list-containers", "-q"), sb.Name+"\n")
		assert.Equal(t, w.ok(t, "ls", "--format", "{{.Name}} {{.Current}} {{.ExitCode}}"), sb.Name+" true 0\n")

		shell := w.terminal(t, w.docker("ralph", "ls"))
		assert.Check(t, is.Contains(shell.wait(t).expect(t, 0).stdout, "\x1b[32mrunning\x1b[0m"))
		plain := w.docker("ralph", "ls")
		plain.Env = append(plain.Env, "NO_COLOR=1")
		assert.Check(t, !strings.Contains(w.terminal(t, plain).wait(t).expect(t, 0).stdout, "\x1b["))
	})
}

func TestLsOutsideOfTheRepository(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		name := w.sandbox(t).Name
		outside := *w
		outside.repo = w.home
		res := outside.ralph(t, "ls").expect(t, 1)
		assert.Check(t, is.Equal(res.stderr, "Error: not inside a git repository: list the sandboxes of this machine with --all\n"))
		assert.Check(t, is.Contains(outside.ok(t, "ls", "--all", "-q"), name+"\n"))
		for _, s := range outside.listed(t, "--all") {
			assert.Check(t, !s.Current)
		}
		other := *w
		other.repo = filepath.Join(w.dir, "src", "other")
		assert.NilError(t, os.MkdirAll(other.repo, 0o755))
		w.own(t, other.repo)
		other.git(t, "init", "-q")
		assert.Equal(t, other.ok(t, "ls", "-q"), "", "it is another repository's")
	})
}

func TestLsTellsWhatContainersTake(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		run(t, w.docker("exec", "-u", fmt.Sprintf("%d:%d", w.uid, w.gid), w.sandbox(t).ID, "sh", "-c", "head -c 3000000 /dev/zero >/home/agent/big")).expect(t, 0)
		list := w.listed(t, "--size")
		assert.Assert(t, list[0].Size != nil)
		assert.Assert(t, *list[0].Size > 3000000 && *list[0].Size < 1<<30, "%d", *list[0].Size)
		assert.Assert(t, w.listed(t)[0].Size == nil)
	})
}

// What an agent writes where ls reads it neither commands the terminal nor keeps
// ls waiting.
func TestLsDoesNotObeyTheAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		loop := filepath.Join(w.repo, ".ralph", "logs", "20990101-000000-build")
		w.write(t, filepath.Join(loop, "loop.json"), `{"mode":"\u001b]0;title\u0007build\nx","stop":"\u001b[2J","started":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:00Z"}`)
		w.own(t, filepath.Join(w.repo, ".ralph"))
		run(t, w.command("mkfifo", filepath.Join(loop, "iterations.jsonl"))).expect(t, 0)
		out := w.ok(t, "ls")
		assert.Equal(t, strings.Count(out, "\n"), 2, out)
		assert.Check(t, !strings.ContainsAny(out, "\x1b\x07"))
	})
}

func TestSandboxesAreCompleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Title")
		name := w.sandbox(t).Name
		for _, command := range []string{"stop", "clean"} {
			w.offers(t, []string{name}, command, "")
			assert.DeepEqual(t, w.completes(t, command, name, ""), []string{})
		}
	})
}

// An engine that does not answer is an error where there is nothing else, and
// else a warning.
func TestLsWithoutAnEngine(t *testing.T) {
	with(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.setenv("DOCKER_HOST", "unix:///nowhere.sock")
		res := w.ralph(t, "ls").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: the driver container: listing sandboxes: "))
		w.setenv("DOCKER_HOST", w.engine.Host)
		w.ok(t, "task", "list")
		name := w.sandbox(t).Name
		w.setenv("DOCKER_HOST", "unix:///nowhere.sock")
		res = w.ralph(t, "ls", "-q").expect(t, 0)
		assert.Check(t, is.Equal(res.stdout, name+"\n"))
		assert.Check(t, is.Contains(res.stderr, "Warning: some sandboxes may be missing: the driver container: "))
		w.setenv("DOCKER_HOST", w.engine.Host)
	})
}
