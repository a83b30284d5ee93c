//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

// A loop works on other tasks while one waits for an answer, and then on that one.
func TestQuestionsAreAnsweredWhileTheLoopRuns(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		const question = `ralph task show paint | grep -q "^ *Answer: blue" || { ralph task ask paint "Which color?" --option red --option blue; exit 1; }`
		slow := slowTask()
		slow.Priority = 1
		w.plan(t, task{ID: "paint", Title: "Paint it", Steps: []string{question, "echo blue > color"}}, slow)
		loop := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))

		var open []manage.SandboxQuestion
		res := w.ralph(t, "questions", "--all", "--format", "json").expect(t, 0)
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &open))
		assert.Equal(t, len(open), 1, res.stderr)
		assert.Equal(t, open[0].ID, "paint")
		assert.Equal(t, open[0].Sandbox, w.sandbox(t).Name)
		assert.DeepEqual(t, open[0].Options, []string{"red", "blue"})
		assert.Equal(t, w.ok(t, "questions"), "paint: Paint it\n  Which color?\n  1. red\n  2. blue\n")

		res = w.ralph(t, "answer", "paint").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no answer given, and standard input is not a terminal"))
		tm := w.shell(t, "answer paint")
		tm.screen.WaitFor(t, "Answer: ")
		tm.press(t, "2\r")
		assert.Check(t, is.Contains(tm.wait(t).expect(t, 0).stdout, "answered paint: blue"))
		w.assertTerminalRestored(t)
		assert.Equal(t, w.ok(t, "questions", "--format", "json"), "[]\n")
		w.ralph(t, "answer", "paint", "red").expect(t, 1)

		w.write(t, w.pathInside(t, "go"), "")
		loop.wait(t).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"paint": "done", "slow": "done"})
	})
}

func TestTasksAreEditedOnTheHost(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.ok(t, "task", "create", "a", "Old title", "-s", `["one"]`)
		res := w.ralph(t, "task", "edit", "a").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "starting an editor: no terminal"))

		w.setenv("VISUAL", "")
		w.setenv("EDITOR", "sed -i -e 's/Old/New/' -e 's/one/two/'")
		assert.Check(t, is.Contains(w.shell(t, "task edit a").wait(t).expect(t, 0).stdout, "updated a"))
		shown := w.ok(t, "task", "show", "a")
		assert.Check(t, is.Contains(shown, "Title:       New title\n"))
		assert.Check(t, is.Contains(shown, "1. two\n"))
		assert.Check(t, is.Contains(w.shell(t, "task edit a").wait(t).expect(t, 0).stdout, "no changes made"))
		w.shell(t, "task edit missing").wait(t).expect(t, 2)

		w.setenv("EDITOR", "sed -i s/title/titel/")
		printed := w.shell(t, "task edit a").wait(t).expect(t, 1).stdout
		assert.Check(t, is.Contains(printed, "reading the edited task: "))
		_, dir, found := strings.Cut(printed, "your changes are in ")
		assert.Assert(t, found, printed)
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "task.toml"))
		assert.NilError(t, err)
		assert.Check(t, is.Contains(string(content), "titel = 'New title'"))
		assert.NilError(t, os.RemoveAll(strings.TrimSpace(dir)))
		w.assertTerminalRestored(t)
	})
}
