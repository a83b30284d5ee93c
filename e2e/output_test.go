//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// "ls", "logs", and the removal of escape sequences.

// listed is what "docker ralph ls" prints as JSON.
func (w *world) listed(t *testing.T, flags ...string) []manage.SandboxStatus {
	t.Helper()
	var list []manage.SandboxStatus
	out := w.ok(t, append([]string{"ls", "--format", "json"}, flags...)...)
	assert.NilError(t, json.Unmarshal([]byte(out), &list), out)
	return list
}

func TestLsListsSandboxesAndLoops(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		assert.Equal(t, len(w.listed(t)), 0)
		w.plan(t, slowTask())
		assert.Equal(t, len(w.listed(t)), 0, "the backlog needs none")
		w.createSandbox(t)
		idle := w.listed(t)
		assert.Equal(t, len(idle), 1)
		assert.Equal(t, idle[0].Driver, w.driver)
		assert.Equal(t, idle[0].State, "running")
		assert.Assert(t, idle[0].Loop == nil && idle[0].Current && !idle[0].Gone)

		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
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
		assert.Assert(t, is.Regexp(`(?m)^NAME +SCOPE +DRIVER +(ENGINE +)?AGENT +STATE +LOOP +WORKTREE +IMAGE$`, table))
		assert.Assert(t, is.Regexp(`(?m)^`+sb.Name+` \(current\) +`+w.slug+`:main +`+w.driver+` +(\S+ +)?shell +running +build #1 slow for .+ +`+w.repo+` +\S+$`, table))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)

		loop = w.listed(t)[0].Loop
		assert.Assert(t, !loop.Running && loop.Ended != nil)
		assert.Equal(t, loop.Stop, "complete")
		assert.Equal(t, w.ok(t, "list-containers", "-q"), sb.Name+"\n")
		assert.Equal(t, w.ok(t, "ls", "--format", "{{.Name}} {{.Current}} {{.ExitCode}}"), sb.Name+" true 0\n")

		state := "\x1b[32mrunning\x1b[0m"
		if w.stateAfterLoop() == lifecycle.Stopped {
			state = "\x1b[90mstopped\x1b[0m"
		}
		shell := w.terminal(t, w.docker("ralph", "ls"))
		assert.Check(t, is.Contains(shell.wait(t).expect(t, 0).stdout, state))
		plain := w.docker("ralph", "ls")
		plain.Env = append(plain.Env, "NO_COLOR=1")
		assert.Check(t, !strings.Contains(w.terminal(t, plain).wait(t).expect(t, 0).stdout, "\x1b["))
	})
}

func TestLsOutsideOfTheRepository(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		name := w.sandbox(t).Name
		outside := *w
		outside.repo = w.home
		res := outside.ralph(t, "ls").expect(t, 1)
		assert.Check(t, is.Equal(res.stderr, "Error: not inside a git repository\nHint: list all sandboxes with --all\nHint: change to a repository, or create one with \"git init\"\n"))
		assert.Check(t, is.Contains(outside.ok(t, "ls", "--all", "-q"), name+"\n"))
		for _, s := range outside.listed(t, "--all") {
			assert.Check(t, !s.Current)
		}
		other := *w
		other.repo = filepath.Join(w.dir, "src", "other")
		assert.NilError(t, os.MkdirAll(other.repo, 0o755))
		w.chown(t, other.repo)
		other.git(t, "init", "-q")
		assert.Equal(t, other.ok(t, "ls", "-q"), "", "it is another repository's")
	})
}

func TestLsShowsResourceUsage(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.createSandbox(t)
		run(t, w.docker("exec", "-u", w.insideUser(), w.sandbox(t).ID, "sh", "-c", "head -c 3000000 /dev/zero >/home/agent/big")).expect(t, 0)
		list := w.listed(t, "--size")
		assert.Assert(t, list[0].Size != nil)
		assert.Assert(t, *list[0].Size > 3000000 && *list[0].Size < 1<<30, "%d", *list[0].Size)
		assert.Assert(t, w.listed(t)[0].Size == nil)
	})
}

// What a log has got from a sandbox does not control the terminal.
func TestLsIgnoresEscapeSequences(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		w.write(t, filepath.Join(w.logs(w.sandbox(t).Name), "20990101-000000-build", "loop.json"), `{"mode":"\u001b]0;title\u0007build\nx","stop":"\u001b[2J","started":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:00Z"}`)
		out := w.ok(t, "ls")
		assert.Equal(t, strings.Count(out, "\n"), 2, out)
		assert.Check(t, !strings.ContainsAny(out, "\x1b\x07"))
	})
}

// An engine that does not answer is an error, or a warning if other drivers list
// sandboxes.
func TestLsAndCleanWithoutAnEngine(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.setenv("DOCKER_HOST", "unix:///nowhere.sock")
		res := w.ralph(t, "ls").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, ""), "no container was ever created")
		w.setenv("DOCKER_HOST", w.engine.Host)
		w.createSandbox(t)
		name := w.sandbox(t).Name
		w.setenv("DOCKER_HOST", "unix:///nowhere.sock")
		res = w.ralph(t, "ls", "-q").expect(t, 0)
		assert.Check(t, is.Equal(res.stderr, ""))
		w.write(t, filepath.Join(w.config, "ralph", "scopes", "ralph-other", "scope.json"), `{"container": {}}`)
		res = w.ralph(t, "ls", "-q").expect(t, 0)
		assert.Check(t, is.Equal(res.stdout, name+"\n"))
		const missing = "Warning: some sandboxes may be missing: cannot connect to the Docker Engine at unix:///nowhere.sock\nHint: start Docker Desktop, or the engine"
		assert.Check(t, is.Contains(res.stderr, missing))
		res = w.ralph(t, "clean", "--force").expect(t, 0)
		assert.Check(t, is.Equal(res.stdout, "sandbox "+name+"\n"))
		assert.Check(t, is.Contains(res.stderr, missing))
		w.setenv("DOCKER_HOST", w.engine.Host)
	})
}

func TestLogs(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		res := w.ralph(t, "logs").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: no loop logs for branch main"))
		assert.Check(t, is.Contains(res.stderr, "Hint: start one with \"docker ralph build\""))
		res = w.ralph(t, "logs", "--follow").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no loop logs for branch main"))

		slow := slowTask()
		slow.Priority = 1
		w.plan(t, task{ID: "a", Title: "Talk", Steps: []string{"echo word of a"}}, slow)
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.WaitFor(t, "word of a")
		so := w.ok(t, "logs")
		assert.Check(t, is.Contains(so, "word of a"))
		assert.Check(t, !strings.Contains(so, "All tasks complete"))
		w.write(t, w.pathInside(t, "go"), "")
		printed := build.wait(t).expect(t, 0).stdout
		followed := follow.wait(t).expect(t, 0)
		assert.Check(t, is.Equal(withoutProgress(followed.stderr), ""))

		// Without the terminal's part it is what the loop has printed.
		whole := w.ok(t, "logs")
		assert.Check(t, is.Equal(whole, followed.stdout))
		before, _, _ := strings.Cut(printed, "deregistered")
		assert.Check(t, is.Equal(whole, before))

		one := w.ok(t, "logs", "--iteration", "1")
		assert.Check(t, is.Contains(one, "Iteration 1: done a"))
		assert.Check(t, !strings.Contains(one, "Mode:   build"))
		assert.Check(t, !strings.Contains(one, "Iteration 2"))
		raw := w.ok(t, "logs", "--raw", "--iteration", "1")
		assert.Check(t, is.Contains(raw, "word of a"))
		assert.Check(t, !strings.Contains(raw, "Iteration 1"))
		res = w.ralph(t, "logs", "--iteration", "9").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "has no iteration 9"))
		w.ralph(t, "logs", "--iteration", "0").expect(t, 1)
	})
}

// "logs -f" exits with the loop's exit code.
func TestLogsFollowExitsWithTheLoopsExitCode(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Fail", Steps: []string{"exit 3"}})
		w.ralph(t, "build", "--max-failures", "1").expect(t, 6)
		follow := w.ralph(t, "logs", "-f").expect(t, 6)
		assert.Check(t, is.Contains(follow.stdout, "Error: "))
	})
}

// "logs -f" does not wait forever for a loop that was killed with its sandbox and its
// command.
func TestLogsFollowEndsWhenTheLoopIsKilled(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.WaitFor(t, "Mode:")
		build.signalGroup(syscall.SIGKILL) // or else it would start the loop again
		build.wait(t)
		run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
		res := follow.wait(t).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "exit code unknown"))
	})
}

// "logs -f" follows a loop that is restarted after its sandbox was killed.
func TestLogsFollowARestartedLoop(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		follow := start(t, w.docker("ralph", "logs", "-f"))
		follow.stdout.WaitFor(t, "Mode:")
		assert.NilError(t, os.Remove(w.pathInside(t, "begun")))
		run(t, w.docker("kill", w.sandbox(t).ID)).expect(t, 0)
		waitForFile(t, w.pathInside(t, "begun"))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
		res := follow.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "All tasks complete"))
	})
}

// logs returns where the logs of a sandbox's loops are.
func (w *world) logs(sandbox string) string {
	return filepath.Join(w.config, "ralph", "scopes", sandbox, "logs")
}

// logFiles returns the files of a name in the logs of all loops.
func (w *world) logFiles(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.logs("*"), "*", name))
	assert.NilError(t, err)
	return files
}

// "events -f" prints the events of a loop until it ends. Afterwards, they need neither its sandbox nor an engine.
func TestEventsFollowALoopToItsEnd(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		res := w.ralph(t, "events").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: no loop logs for branch main"))

		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		follow := start(t, w.docker("ralph", "events", "-f"))
		follow.stdout.WaitFor(t, `"type":"run.start"`)
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
		followed := follow.wait(t).expect(t, 0)
		assert.Check(t, is.Equal(withoutProgress(followed.stderr), ""))
		types := map[string]int{}
		for line := range strings.Lines(followed.stdout) {
			var e struct{ Type string }
			assert.NilError(t, json.Unmarshal([]byte(line), &e), line)
			types[e.Type]++
		}
		for _, once := range []string{"loop.start", "run.start", "run.end", "loop.end"} {
			assert.Check(t, is.Equal(types[once], 1), once)
		}

		w.ok(t, "clean", "--force")
		away := *w
		away.env = append(slices.Clone(w.env), "DOCKER_HOST="+deadHost)
		assert.Equal(t, away.ok(t, "events"), followed.stdout)
		loop := filepath.Base(filepath.Dir(w.logFiles(t, "loop.json")[0]))
		assert.Equal(t, away.ok(t, "events", "--loop", loop), followed.stdout)
	})
}

// bypassLoop is a step that prints past the loop, which would clean it: straight to
// the output of every process there is.
const bypassLoop = `for out in /proc/[0-9]*/fd/1; do printf '\033]0;title\007\033]52;c;eA==\007\033[2Jsneaked \033[32mgreen\033[0m\n' >$out; done 2>/dev/null; true`

// hiddenText is a step that hides text in the output.
const hiddenText = `for out in /proc/[0-9]*/fd/1; do printf '\033[8;30;40;7mhidden\n' >>$out; done 2>/dev/null; true`

// The agent's output reaches the user as text and colour only, by every path.
func TestEscapeSequencesOfTheAgentAreRemoved(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Sneak", Steps: []string{bypassLoop, `printf 'open \033]0;title\007way\n'`, hiddenText}})
		res := w.ralph(t, "build").expect(t, 0)
		out := res.stdout + res.stderr
		assert.Check(t, is.Contains(out, "sneaked green\n"), "the output of the loop is out of reach")
		for _, sequence := range []string{"\x1b]", "\x1b[2J", "\a"} {
			assert.Check(t, !strings.Contains(out, sequence), "%q in %q", sequence, out)
		}
		logs := w.ok(t, "logs")
		assert.Check(t, is.Contains(logs, "hidden\n"))
		assert.Check(t, !strings.Contains(logs, "\x1b[8"), "%q", logs)

		w.plan(t, task{ID: "b", Title: "Sneak again", Steps: []string{bypassLoop}})
		term := w.terminal(t, w.docker("ralph", "build"))
		term.wait(t).expect(t, 0)
		seen := term.screen.String()
		assert.Check(t, is.Contains(seen, "sneaked "))
		for _, sequence := range []string{"\x1b]0", "\x1b]52", "\x1b[2J"} {
			assert.Check(t, !strings.Contains(seen, sequence), "%q in %q", sequence, seen)
		}
	})
}
