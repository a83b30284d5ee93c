//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/notify"
)

// status is what "docker ralph status" prints as JSON.
func (w *world) status(t *testing.T) (s manage.SandboxStatus) {
	t.Helper()
	out := w.ok(t, "status", "--format", "json")
	assert.NilError(t, json.Unmarshal([]byte(out), &s), out)
	return s
}

// waitForActivity waits until the sandbox of the world has an activity.
func (w *world) waitForActivity(t *testing.T, want manage.Activity) manage.SandboxStatus {
	t.Helper()
	var s manage.SandboxStatus
	eventually(t, func() error {
		if s = w.status(t); s.Activity != want {
			return fmt.Errorf("%s: %+v", s.Activity, s.Loop)
		}
		return nil
	})
	return s
}

func TestStatusShowsWhatTheSandboxDoes(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		assert.Equal(t, w.status(t).Activity, manage.Idle)
		assert.Check(t, is.Contains(w.ok(t, "status"), ": none\n"))
		w.ok(t, "worktree", "add", "x")
		for _, args := range [][]string{{"status", "--worktree", "x"}, {"--worktree=x", "status"}} {
			assert.Check(t, is.Contains(w.ok(t, args...), "Scope      "+w.slug+":x\n"))
		}
		res := w.ralph(t, "status", "--worktree", "y").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: no worktree \"y\"\n"))
		slow := slowTask()
		slow.Priority = 1
		w.plan(t, slow, task{ID: "other", Title: "Other", Priority: 2, Steps: []string{"true"}})
		watch := start(t, w.docker("ralph", "status", "--watch", "--format", "{{.Activity}} {{.Task}}"))
		watch.stdout.WaitFor(t, "idle")
		build := start(t, w.docker("ralph", "build", "--max-tokens", "5_000_000"))
		waitForFile(t, w.pathInside(t, "begun"))

		eventually(t, func() error {
			if s := w.status(t); s.Loop == nil || s.Loop.Title == "" || s.Loop.Counts.Active != 1 {
				return fmt.Errorf("%+v", s.Loop)
			}
			return nil
		})
		s := w.status(t)
		assert.Equal(t, s.Activity, manage.Working)
		assert.Assert(t, s.Loop.Running)
		assert.DeepEqual(t, s.Loop.Tasks, []string{"slow"})
		assert.Equal(t, s.Loop.Title, "Wait for go")
		assert.Equal(t, s.Loop.Iteration, 1)
		assert.Equal(t, s.Loop.Limits.MaxTokens, int64(5_000_000))
		assert.Equal(t, s.Loop.Counts.Left(), 2)
		assert.Equal(t, *s.Unfetched, 0)
		assert.Equal(t, w.listed(t)[0].Activity, manage.Working)
		assert.Check(t, is.Contains(w.ok(t, "status"), "Task       slow: Wait for go\n"))
		watch.stdout.WaitFor(t, "working slow")

		w.write(t, w.pathInside(t, "go"), "")
		build.wait(t).expect(t, 0)
		s = w.waitForActivity(t, manage.Ended)
		assert.Equal(t, s.Loop.Stop, "complete")
		assert.Equal(t, s.Loop.Counts.Left(), 0)
		watch.stdout.WaitFor(t, "ended")
		watch.signalGroup(syscall.SIGINT)
		watch.wait(t).expect(t, 130)
	})
}

// At a terminal the table fits, and is redrawn in place.
func TestLsFitsTheTerminal(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		tm := w.shell(t, "ls")
		table := tm.wait(t).expect(t, 0).stdout
		assert.Check(t, is.Contains(table, w.sandbox(t).Name))
		for line := range strings.Lines(table) {
			plain := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "", "…", ".").Replace(strings.TrimRight(line, "\r\n"))
			assert.Check(t, len(plain) <= 80, "%q", line)
		}
		watch := w.shell(t, "ls --watch")
		watch.screen.WaitFor(t, "\x1b[2A\r\x1b[J")
		watch.press(t, "\x03")
		watch.wait(t).expect(t, 130)
		w.assertTerminalRestored(t)
	})
}

// The dashboard shows the sandboxes of all repositories and the output of a loop, and stops it.
func TestTopShowsAndStopsLoops(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		slow := slowTask()
		slow.Steps = append([]string{"echo hello from the loop"}, slow.Steps...)
		w.plan(t, slow)
		w.ok(t, "--detach", "build")
		waitForFile(t, w.pathInside(t, "begun"))
		res := w.ralph(t, "top").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Hint: list sandboxes with \"docker ralph ls --all --watch\""))

		top := w.shell(t, "top")
		top.screen.WaitFor(t, "docker ralph top")
		top.screen.WaitFor(t, w.slug)
		// Other tests have sandboxes as well.
		eventually(t, func() error {
			if s := top.screen.String(); strings.Contains(s, "hello from the loop") {
				return nil
			}
			top.press(t, "j")
			return fmt.Errorf("no output of the loop")
		})
		top.press(t, "s")
		top.screen.WaitFor(t, "after its current run? [y/N]")
		top.press(t, "y")
		eventually(t, func() error {
			if strings.Contains(w.ralph(t, "logs").stdout, "Stop requested: the loop ends after this run.") {
				return nil
			}
			return errors.New("the loop was not asked to stop")
		})
		w.write(t, w.pathInside(t, "go"), "")
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)
		eventually(t, func() error {
			if s := w.status(t); s.State != "stopped" {
				return fmt.Errorf("it is %s", s.State)
			}
			return nil
		})
		columns := uint16(100)
		eventually(t, func() error { // only changes are drawn, unless the size changes
			if strings.Contains(top.screen.String(), "Stopped sandbox "+w.sandbox(t).Name) {
				return nil
			}
			columns++
			return errors.Join(top.size(30, columns), errors.New("the result is not shown"))
		})
		top.press(t, "q")
		top.wait(t).expect(t, 0)
		w.assertTerminalRestored(t)
	})
}

// An open question is shown and sent to the user until it has an answer.
func TestQuestionsNeedTheUser(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.configureUser(t, "[notify]\ncommand = [\"sh\", \"-c\", \"cat >> ~/notifications\"]\n")
		w.plan(t, task{ID: "paint", Title: "Paint it", Steps: []string{`ralph task ask paint "Which color?" --option red --option blue`}})
		build := w.ralph(t, "build")
		assert.Check(t, build.code != 0)
		s := w.waitForActivity(t, manage.NeedsAnswer)
		assert.Equal(t, len(s.Questions), 1)
		assert.Equal(t, s.Questions[0].Text, "Which color?")
		assert.Check(t, is.Contains(w.ok(t, "status"), "Question   paint: Which color?\n"))
		eventually(t, func() error {
			content, err := os.ReadFile(filepath.Join(w.home, "notifications"))
			if err != nil {
				return err
			}
			n, err := parseNotifications(t, string(content)).of(notify.QuestionAsked)
			if err == nil {
				assert.DeepEqual(t, n.Question.Options, []string{"red", "blue"})
			}
			return err
		})

		w.ok(t, "answer", "paint", "blue")
		assert.Equal(t, len(w.waitForActivity(t, manage.Ended).Questions), 0)
	})
}
