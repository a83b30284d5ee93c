//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Loops in the background: detach, attach, and lost terminals.

// loopEnd waits for the end that a detached loop of the sandbox leaves behind.
func (w *world) loopEnd(t *testing.T) host.End {
	t.Helper()
	var end host.End
	name := w.sandbox(t).Name
	eventually(t, func() (err error) {
		end, err = host.Ended(filepath.Join(w.config, "ralph"), name)
		return err
	})
	return end
}

// waitForDetached waits until the loop of the world's sandbox continues without a
// terminal.
func (w *world) waitForDetached(t *testing.T) {
	t.Helper()
	notes := filepath.Join(w.config, "ralph", "scopes", w.sandbox(t).Name, "dispatches", "*")
	eventually(t, func() error {
		found, err := filepath.Glob(notes)
		for _, note := range found {
			content, readErr := os.ReadFile(note)
			if readErr == nil && strings.Contains(string(content), `"detached":true`) {
				return nil
			}
		}
		return errors.Join(err, errors.New("no loop is noted as detached"))
	})
}

func TestBackgroundLoopCanBeFollowedAndReportsItsEnd(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		w.setenv("E2E_SECRET", "hush-hush")
		res := w.ralph(t, "--detach", "--env", "E2E_SECRET", "build", "--max-failures", "2").expect(t, 0)
		sb := w.sandbox(t)
		lines := strings.Split(strings.TrimSpace(res.stdout), "\n")
		assert.Equal(t, lines[len(lines)-1], sb.Name)
		assert.Check(t, is.Contains(res.stderr, fmt.Sprintf("ralph build is running in the background\nHint: follow it with %q, attach with %q, stop it with %q\n",
			"docker ralph logs -f "+sb.Name, "docker ralph attach "+sb.Name, "docker ralph stop "+sb.Name)))

		waitForFile(t, w.pathInside(t, "begun"))
		w.assertNotLeaked(t, "hush-hush")
		follow := start(t, w.docker("ralph", "logs", "-f"))
		attach := start(t, w.docker("ralph", "attach"))
		follow.stdout.WaitFor(t, "Mode:")
		attach.stdout.WaitFor(t, "Mode:")
		other := w.ralph(t, "plan", "--help").expect(t, 0)
		assert.Check(t, is.Equal(other.stderr, ""))

		w.write(t, w.pathInside(t, "go"), "")
		assert.Check(t, is.Contains(follow.wait(t).expect(t, 0).stdout, "All tasks complete"))
		assert.Check(t, is.Contains(attach.wait(t).expect(t, 0).stdout, "All tasks complete"))
		end := w.loopEnd(t)
		assert.DeepEqual(t, end.Command, []string{"ralph", "build", "--max-failures", "2"})
		assert.Equal(t, end.ExitCode, 0)
		assert.Equal(t, end.Error, "")
		assert.Check(t, is.Contains(end.Summary, "Total: 1 run, 1 task done"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})

		res = w.ralph(t, "attach").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no background loop in sandbox "+sb.Name+`: "ralph build --max-failures 2" ended in the background at `))
		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, `Note: "ralph build --max-failures 2" ended in the background at `))
		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "ended in the background"))
	})
}

// assertNotLeaked asserts that a secret is in no command line and no file of the
// state folder.
func (w *world) assertNotLeaked(t *testing.T, secret string) {
	t.Helper()
	assert.Equal(t, len(processesWith(secret)), 0)
	assert.NilError(t, filepath.WalkDir(filepath.Join(w.config, "ralph"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), secret) {
			err = errors.New(path + " has it")
		}
		return err
	}))
}

// Errors that prevent a loop from starting are the same with and without --detach.
func TestBackgroundLoopReportsWhyItCannotStart(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "--detach", "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: --detach works with plan and build only"))
		assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, "specs")))
		res = w.ralph(t, "--detach", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: nothing to build: no tasks, and no specs in ./specs"))
		assert.Check(t, !strings.Contains(res.stderr, "in the background"))
		res = w.ralph(t, "attach").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Hint: start one with "docker ralph build --detach"`))
	})
}

// Confirmations precede detaching; without a terminal they are errors.
func TestBackgroundLoopConfirmsBeforeItDetaches(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "quick", Title: "Be quick", Steps: []string{"true"}})
		w.write(t, filepath.Join(w.repo, "ralph.toml"), "[env]\npass = [\"E2E_SECRET\"]\n")
		res := w.ralph(t, "--detach", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "docker ralph trust"))

		refused := w.dialogue(t, "build", "Trust these settings of the repository? [y/N]", "n").expect(t, 1)
		w.assertScreen(t, refused.stdout, "trust")
		assert.Equal(t, len(w.containers(t)), 0)
		asked := w.terminal(t, w.docker("ralph", "--detach", "build"))
		asked.screen.WaitFor(t, "Trust these settings of the repository? [y/N]")
		asked.press(t, "y\r")
		asked.screen.WaitFor(t, "is running in the background")
		asked.wait(t).expect(t, 0)
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"quick": "done"})
	})
}

func TestAttachAndDetachAgain(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.ignoreMarkers(t)
		w.createSandbox(t)
		w.plan(t, slowTask())
		w.ok(t, "--detach", "build")
		waitForFile(t, w.pathInside(t, "begun"))
		back := w.shell(t, "attach")
		back.screen.WaitFor(t, "Mode:")
		back.screen.WaitFor(t, "   $ test -e go")
		back.press(t, "\x10\x11")
		res := back.wait(t).expect(t, 0)
		w.assertTerminalRestored(t)
		assert.Check(t, is.Contains(res.stdout, "Detached: ralph build continues in sandbox "))
		assert.Check(t, is.Contains(res.stdout, "Mode:   build\r\n"))
		w.assertScreen(t, res.stdout, "attach")

		back = w.shell(t, "attach")
		back.screen.WaitFor(t, "Mode:")
		back.press(t, "\x03")
		back.screen.WaitFor(t, cleanupMessage)
		w.write(t, w.pathInside(t, "go"), "")
		back.wait(t).expect(t, 130)
		w.assertTerminalRestored(t)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "signals")), "INT\n")
		assert.Equal(t, w.loopEnd(t).ExitCode, 130)
		w.assertResumable(t)
	})
}

func TestCtrlCTwiceEndsAnAttachedLoop(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		w.ok(t, "--detach", "build")
		waitForFile(t, w.pathInside(t, "begun"))
		back := start(t, w.docker("ralph", "attach"))
		back.stdout.WaitFor(t, "Mode:")
		back.signalGroup(syscall.SIGINT)
		back.stdout.WaitFor(t, cleanupMessage)
		back.signalGroup(syscall.SIGINT)
		back.wait(t).expect(t, 130)
		w.waitForIdle(t)
		w.write(t, w.pathInside(t, "go"), "")
		w.assertResumable(t)
	})
}

func TestLostTerminalDetaches(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.ignoreMarkers(t)
		w.plan(t, slowTask())
		for name, lose := range map[string]func(build *terminal){
			"window closed": func(build *terminal) { build.hangUp() },
			"SIGHUP":        func(build *terminal) { build.signalGroup(syscall.SIGHUP) },
		} {
			if !t.Run(name, func(t *testing.T) { w.loseTerminal(t, lose) }) {
				return
			}
			w.replan(t, slowTask())
		}
	})
}

// loseTerminal asserts that a loop that loses its terminal continues in the
// background, and can be followed and attached to.
func (w *world) loseTerminal(t *testing.T, lose func(build *terminal)) {
	t.Helper()
	build := w.shell(t, "build")
	waitForFile(t, w.pathInside(t, "begun"))
	build.screen.WaitFor(t, "task 1 of 1")
	lose(build)
	build.process.wait(t) // docker; the plugin may take a moment longer
	w.waitForDetached(t)

	back := start(t, w.docker("ralph", "attach"))
	follow := start(t, w.docker("ralph", "logs", "-f"))
	follow.stdout.WaitFor(t, "Mode:")
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "active"})
	w.write(t, w.pathInside(t, "go"), "")
	follow.wait(t).expect(t, 0)
	res := back.wait(t)
	if res.code != 0 { // the loop had ended before it attached
		assert.Check(t, is.Contains(res.stderr, "ended in the background"))
	}
	end := w.loopEnd(t)
	assert.Equal(t, end.ExitCode, 0, end.Error)
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	_, err := os.Stat(w.pathInside(t, "signals"))
	assert.Assert(t, os.IsNotExist(err))
}

// Without a terminal, docker alone may get the SIGHUP, as when an ssh session ends.
func TestSIGHUPToDockerAloneDetaches(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		build.signal(t, syscall.SIGHUP)
		build.wait(t).expect(t, 128+int(syscall.SIGHUP))
		w.write(t, w.pathInside(t, "go"), "")
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)
		_, err := os.Stat(w.pathInside(t, "signals"))
		assert.Assert(t, os.IsNotExist(err))
	})
}

// Commits of a loop that has lost its terminal are fetched like any others.
func TestBackgroundLoopDeliversItsCommits(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "slow", Title: "Commit late", Steps: []string{
			"touch begun; while ! test -e go; do sleep 0.05; done; echo x >made; git add made; git commit -q -m made-late",
		}})
		before := w.git(t, "rev-parse", "HEAD")
		build := w.shell(t, "build")
		waitForFile(t, w.pathInside(t, "begun"))
		build.hangUp()
		build.process.wait(t)
		w.write(t, w.pathInside(t, "go"), "")
		end := w.loopEnd(t)
		assert.Equal(t, end.ExitCode, 0, end.Error)
		assert.Equal(t, w.git(t, "log", "--format=%s", before+"..HEAD"), "Commit late\nmade-late")
		log, err := os.ReadFile(end.Log)
		assert.NilError(t, err)
		assert.Check(t, is.Contains(string(log), "The terminal was lost: the loop continues in the background"))
		assert.Check(t, is.Contains(string(log), "All tasks complete"), fmt.Sprintf("%q", log))
		assert.Check(t, !strings.Contains(string(log), "task 1 of 1"), "the log has the status line: %q", log)
	})
}

func TestBackgroundLoopRemovesItsOneTimeSandbox(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.plan(t, slowTask())
		w.ok(t, "--detach", "build")
		waitForFile(t, w.pathInside(t, "begun"))
		follow, attach := start(t, w.docker("ralph", "logs", "-f")), start(t, w.docker("ralph", "attach"))
		follow.stdout.WaitFor(t, "Mode:")
		attach.stdout.WaitFor(t, "Mode:")
		w.write(t, w.pathInside(t, "go"), "")
		follow.wait(t).expect(t, 0)
		attach.wait(t).expect(t, 0)
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

// A loop in the clone of a microVM is followed like any other.
func TestAttachToALoopInAClone(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		w.ok(t, "--detach", "build")
		waitForFile(t, w.pathInside(t, "begun"))
		follow, attach := start(t, w.docker("ralph", "logs", "-f")), start(t, w.docker("ralph", "attach"))
		follow.stdout.WaitFor(t, "Mode:")
		attach.stdout.WaitFor(t, "Mode:")
		w.write(t, w.pathInside(t, "go"), "")
		assert.Check(t, is.Contains(follow.wait(t).expect(t, 0).stdout, "All tasks complete"))
		assert.Check(t, is.Contains(attach.wait(t).expect(t, 0).stdout, "All tasks complete"))
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Wait for go")
	})
}
