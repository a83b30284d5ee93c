//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// A loop works on other tasks while one waits for an answer, and then on that one.
func TestQuestionsAreAnsweredWhileTheLoopRuns(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		const question = `ralph task show paint | grep -q "^ *Answer: blue" || { ralph task ask paint "Which color?" --option red --option blue; exit 1; }`
		slow := slowTask()
		slow.Priority = 1
		w.plan(t, task{ID: "paint", Title: "Paint it", Steps: []string{question, "echo blue > color"}}, slow)
		loop := start(t, w.docker("ralph", "build"))
		waitForFile(t, filepath.Join(w.repo, "begun"))

		var open []manage.SandboxQuestion
		res := w.ralph(t, "questions", "--all", "--format", "json").expect(t, 0)
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &open))
		assert.Equal(t, len(open), 1, res.stderr)
		assert.Equal(t, open[0].ID, "paint")
		assert.Equal(t, open[0].Sandbox, w.sandbox(t).Name)
		assert.DeepEqual(t, open[0].Options, []string{"red", "blue"})
		assert.Equal(t, w.ok(t, "questions"), "paint: Paint it\n  Which color?\n  1. red\n  2. blue\n")

		res = w.ralph(t, "answer", "paint").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no answer, and no terminal to ask at"))
		tm := w.shell(t, "answer paint")
		tm.screen.WaitFor(t, "Answer: ")
		tm.press(t, "2\r")
		assert.Check(t, is.Contains(tm.wait(t).expect(t, 0).stdout, "answered paint: blue"))
		w.assertTerminalRestored(t)
		assert.Equal(t, w.ok(t, "questions", "--format", "json"), "[]\n")
		w.ralph(t, "answer", "paint", "red").expect(t, 1)

		w.write(t, filepath.Join(w.repo, "go"), "")
		loop.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"paint": "done", "slow": "done"})
	})
}

// The questions of a stopped sandbox are in the copy of its backlog.
func TestQuestionsOfStoppedSandboxesAreListed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "A", Steps: []string{`ralph task ask a "Why?" --default because --default-after 8h`}})
		w.ralph(t, "build", "-n", "1")
		w.ok(t, "stop")
		eventually(t, func() error {
			listed := w.ok(t, "questions", "--all")
			if want := fmt.Sprintf("%s (%s main)\na: A\n  Why?\n  1. because (default in ", w.sandbox(t).Name, w.slug); !is.Contains(listed, want)().Success() {
				return errors.New(listed)
			}
			return nil
		})
	})
}
