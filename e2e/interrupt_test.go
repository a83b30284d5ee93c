//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Ctrl+C, signals, detach keys, and terminal size.

func TestTerminalSizeIsForwarded(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "live")
		w.createSandbox(t)
		w.plan(t, slowTask())
		build := w.shell(t, "build")
		waitForFile(t, w.pathInside(t, "begun"))
		for _, size := range [][2]uint16{{24, 80}, {50, 132}, {10, 40}} {
			assert.NilError(t, build.size(size[0], size[1]))
			eventually(t, func() error {
				if got, want := w.sizesInside(t), fmt.Sprintf("%d %d\n", size[0], size[1]); !slices.Contains(slices.Collect(strings.Lines(got)), want) {
					return fmt.Errorf("%q has no %q", got, want)
				}
				return nil
			})
		}
		w.write(t, w.pathInside(t, "go"), "")
		w.assertScreen(t, build.wait(t).expect(t, 0).stdout, "build")
		w.assertTerminalRestored(t)
		logs := w.ok(t, "logs")
		assert.Check(t, is.Contains(logs, "\n━━ Done (success) | cost: $0 | turns: 1 ━━\n"))
		assert.Check(t, !strings.Contains(logs, "task 1 of 1"), "the log has the status line:\n%s", logs)
	})
}

// sizesInside returns the sizes of the terminals in the sandbox, one per line: that of ralph, and of what keeps a
// microVM alive.
func (w *world) sizesInside(t *testing.T) string {
	t.Helper()
	return run(t, w.docker("exec", "--user", w.insideUser(), w.sandbox(t).ID, "sh", "-c",
		`for t in /dev/pts/[0-9]*; do stty -F $t size; done`)).expect(t, 0).stdout
}

// slowTask waits for the file "go", and records the signals that arrive meanwhile. If
// the file exists it ends at once.
func slowTask() task {
	return task{ID: "slow", Title: "Wait for go", Steps: []string{
		"test -e go && exit; trap 'echo INT >>signals' INT; trap 'echo TERM >>signals' TERM; touch begun; while ! test -e go; do sleep 0.05; done",
	}}
}

const cleanupMessage = "Waiting for shell to finish cleanup... Press Ctrl+C again to force quit."

// interrupts are ways to interrupt a loop at work, and what is particular to each.
var interrupts = []struct {
	name string
	do   func(t *testing.T, w *world)
}{
	{"Ctrl+C", func(t *testing.T, w *world) {
		build := w.shell(t, "build")
		waitForFile(t, w.pathInside(t, "begun"))
		build.press(t, "\x03")
		build.screen.WaitFor(t, cleanupMessage)
		waitForFile(t, w.pathInside(t, "signals"))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 130)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "signals")), "INT\n")
		w.assertTerminalRestored(t)
	}},
	{"Ctrl+C twice", func(t *testing.T, w *world) {
		build := w.shell(t, "build")
		waitForFile(t, w.pathInside(t, "begun"))
		build.press(t, "\x03")
		build.screen.WaitFor(t, cleanupMessage)
		build.press(t, "\x03")
		build.wait(t).expect(t, 130)
		w.assertTerminalRestored(t)
		w.waitForIdle(t)
	}},
	// Docker does not take the keyboard then: the terminal signals all processes at
	// once, and docker forwards the signal to the plugin besides.
	{"Ctrl+C with redirected output", func(t *testing.T, w *world) {
		output := filepath.Join(w.dir, "output")
		build := w.terminal(t, w.command("sh", "-c", "trap : INT; docker ralph build >"+output+" 2>&1; exit $?"))
		waitForFile(t, w.pathInside(t, "begun"))
		build.press(t, "\x03")
		waitForFile(t, w.pathInside(t, "signals"))
		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 130)
		assert.Equal(t, w.readFile(t, w.pathInside(t, "signals")), "INT\n")
		assert.Equal(t, strings.Count(w.read(t, "../../output"), cleanupMessage), 1)
	}},
	// Without a terminal a signal comes to docker alone ("kill"), or to docker and the
	// plugin ("timeout", Ctrl+C in a pipeline). Docker does not forward the signal's
	// number, so a lone SIGTERM counts as an interrupt.
	{"SIGINT to docker", func(t *testing.T, w *world) { w.signalBuild(t, syscall.SIGINT, false) }},
	{"SIGTERM to docker", func(t *testing.T, w *world) { w.signalBuild(t, syscall.SIGTERM, false) }},
	{"SIGINT to the group", func(t *testing.T, w *world) { w.signalBuild(t, syscall.SIGINT, true) }},
	{"SIGTERM to the group", func(t *testing.T, w *world) { w.killAgent(t, syscall.SIGTERM) }},
	{"SIGINT twice to the group", func(t *testing.T, w *world) { w.killAgent(t, syscall.SIGINT, syscall.SIGINT) }},
}

// An interrupted loop leaves its sandbox running and its task open, and the next
// loop does the task.
func TestInterruptedLoopIsResumable(t *testing.T) {
	remotely := []string{"Ctrl+C", "SIGTERM to the group"} // the rest is the same there
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.ignoreMarkers(t)
		w.createSandbox(t)
		w.plan(t, slowTask())
		for _, tc := range interrupts {
			if w.endpoint != nil && !slices.Contains(remotely, tc.name) {
				continue
			}
			if !t.Run(tc.name, func(t *testing.T) {
				tc.do(t, w)
				w.write(t, w.pathInside(t, "go"), "")
				w.assertResumable(t)
			}) {
				return // the sandbox is not as the next one needs it
			}
			w.replan(t, slowTask())
		}
	})
}

// ignoreMarkers has git ignore the files by which tests and tasks communicate, so
// that several tests can use them in one repository.
func (w *world) ignoreMarkers(t *testing.T) {
	t.Helper()
	w.ignore(t, "/begun", "/go", "/signals")
}

// replan opens a task again that is done, and removes the files by which it
// communicates.
func (w *world) replan(t *testing.T, again task) {
	t.Helper()
	w.ok(t, "task", "delete", again.ID)
	w.plan(t, again)
	for _, name := range []string{"begun", "go", "signals"} {
		assert.NilError(t, os.RemoveAll(w.pathInside(t, name)))
	}
}

// signalBuild sends a signal to a build, which has to arrive in the sandbox once.
func (w *world) signalBuild(t *testing.T, sig syscall.Signal, group bool) {
	t.Helper()
	if !group && shared.client < forwardsSignals {
		t.Skipf("docker %d keeps a signal that comes to it alone to itself", shared.client)
	}
	build := start(t, w.docker("ralph", "build"))
	waitForFile(t, w.pathInside(t, "begun"))
	if group {
		build.signalGroup(sig)
	} else {
		build.signal(t, sig)
	}
	waitForFile(t, w.pathInside(t, "signals"))
	build.stdout.WaitFor(t, cleanupMessage)
	w.write(t, w.pathInside(t, "go"), "")
	res := build.wait(t).expect(t, 130)
	assert.Equal(t, w.readFile(t, w.pathInside(t, "signals")), "INT\n")
	assert.Equal(t, strings.Count(res.stdout, cleanupMessage), 1)
	assert.Check(t, is.Contains(res.stdout, `To let a run finish its task instead, use "docker ralph stop".`))
	slow := "Fetching commits from sandbox " + w.sandbox(t).Name + "\n" // after a second
	assert.Equal(t, strings.Replace(res.stderr, slow, "", 1), "")
}

// killAgent sends signals that end a build's agent at once.
func (w *world) killAgent(t *testing.T, signals ...syscall.Signal) {
	t.Helper()
	build := start(t, w.docker("ralph", "build"))
	waitForFile(t, w.pathInside(t, "begun"))
	for i, sig := range signals {
		if i > 0 {
			build.stdout.WaitFor(t, cleanupMessage)
			waitForFile(t, w.pathInside(t, "signals"))
		}
		build.signalGroup(sig)
	}
	build.wait(t).expect(t, 130)
	w.waitForIdle(t)
}

// assertResumable asserts that an interrupted build has left the sandbox running and
// the task open, and that the next build does it.
func (w *world) assertResumable(t *testing.T) {
	t.Helper()
	sandbox := w.sandbox(t)
	assert.Equal(t, sandbox.Running, w.stateAfterLoop() == lifecycle.Running)
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "open"})
	w.ok(t, "build")
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)
}

// waitForIdle waits until nothing but its first process runs in the sandbox; that
// of a microVM's container has a child.
func (w *world) waitForIdle(t *testing.T) {
	t.Helper()
	id, lines := w.sandbox(t).ID, 2
	if w.isMicroVM() {
		lines++
	}
	eventually(t, func() error {
		if top := run(t, w.docker("top", id, "-eo", "pid,args")).stdout; strings.Count(top, "\n") > lines {
			return errors.New("processes are left:\n" + top)
		}
		return nil
	})
}

func TestDetachKeysLeaveTheLoopRunning(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.ignoreMarkers(t)
		// Pending output must not delay detaching.
		loud := task{ID: "loud", Title: "Talk", Steps: []string{
			"touch begun; while ! test -e go; do echo $((n=n+1)) is a number; done; sleep 1",
		}}
		w.plan(t, loud)
		for _, tc := range []struct{ config, keys string }{
			{"{}", "\x10\x11"},
			{`{"detachKeys": "ctrl-x,q"}`, "\x18q"},
		} {
			w.write(t, filepath.Join(w.config, "config.json"), tc.config)
			build := w.shell(t, "build")
			waitForFile(t, w.pathInside(t, "begun"))
			build.screen.WaitFor(t, "100 is a number")
			build.press(t, tc.keys)
			res := build.wait(t).expect(t, 0)
			w.assertTerminalRestored(t)
			assert.Check(t, is.Contains(res.stdout, "Detached: ralph build continues in sandbox "))

			assert.DeepEqual(t, w.statuses(t), map[string]string{"loud": "active"})
			w.write(t, w.pathInside(t, "go"), "")
			w.ok(t, "attach")
			assert.DeepEqual(t, w.statuses(t), map[string]string{"loud": "done"})
			w.replan(t, loud)
		}
	})
}

func TestSignalDuringSandboxCreation(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_WORKSPACE", "live") // its files are there before the sandbox
		w.ignoreMarkers(t)
		w.createUnrelatedMicroVM(t)
		w.plan(t, slowTask())
		w.write(t, w.pathInside(t, "go"), "")
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			w.removeSandboxes(t)
			build := start(t, w.docker("ralph", "build"))
			build.stderr.WaitFor(t, "Creating sandbox ")
			build.signalGroup(sig)
			res := build.wait(t)
			if sig != syscall.SIGKILL {
				res.expect(t, 130)
			}
			w.ok(t, "build")
			assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
			assert.Equal(t, len(w.sandboxes(t)), 1, sig.String())
			w.replan(t, slowTask())
			w.write(t, w.pathInside(t, "go"), "")
		}
	})
}

func TestSignalDuringImageBuild(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			onEngines(t, func(t *testing.T, w *world) {
				base := w.slowBase(t)
				args := []string{"ralph", "--progress", "plain", "--base", base, "shell", "--", "echo", "a"}
				cmd := start(t, w.docker(args...))
				cmd.stderr.WaitFor(t, "RUN : ")
				cmd.signalGroup(sig)
				res := cmd.wait(t)
				assert.Equal(t, len(w.sandboxes(t)), 0)
				if sig != syscall.SIGKILL {
					res.expect(t, 130)
				}

				again := start(t, w.docker(args...))
				again.stderr.WaitFor(t, "Creating sandbox ") // the image has a minute of its own
				assert.Equal(t, again.wait(t).expect(t, 0).stdout, "a\n")
				assert.Equal(t, len(w.sandboxes(t)), 1)
			})
		})
	}
}

// slowBase makes a base image that takes its time when built on. Its name in
// the command keeps BuildKit from having done that before.
func (w *world) slowBase(t *testing.T) string {
	t.Helper()
	base := "ralph-e2e-" + filepath.Base(w.slug) + ":slow"
	id := strings.TrimSpace(run(t, w.docker("create", engines.BaseImage(), "true")).expect(t, 0).stdout)
	run(t, w.docker("commit", "--change", "ONBUILD RUN : "+base+"; sleep 2", id, base)).expect(t, 0)
	run(t, w.docker("rm", id)).expect(t, 0)
	t.Cleanup(func() {
		w.removeSandboxes(t)
		built := run(t, w.docker("images", "-q", "--filter", "label="+labelPrefix+"base="+base)).stdout
		run(t, w.docker(append([]string{"rmi", "-f", base}, strings.Fields(built)...)...))
	})
	return base
}

// A loop survives that docker and the plugin are killed: it waits for another command, which does
// not interrupt it, and its work counts.
func TestKilledPluginDoesNotInterruptTheLoop(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		next := slowTask()
		next.ID, next.Priority = "next", 1
		w.plan(t, slowTask(), next)
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		id := w.sandbox(t).ID
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)

		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "active", "next": "open"})
		w.ok(t, "shell", "--", "true")
		assert.Equal(t, w.sandbox(t).ID, id)
		w.write(t, w.pathInside(t, "go"), "")
		w.ok(t, "attach")
		w.waitForIdle(t)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done", "next": "done"})
		_, err := os.Stat(w.pathInside(t, "signals"))
		assert.Assert(t, os.IsNotExist(err))
		assert.Check(t, is.Contains(w.ok(t, "build"), "All tasks complete"))
	})
}
