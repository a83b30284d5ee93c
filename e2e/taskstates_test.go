//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// statesAgent takes each task once, and ends it as its ID says.
const statesAgent = `for id in done failed released question active; do
	test -e .ralph/$id && continue
	touch .ralph/$id
	ralph task claim $id >/dev/null || exit 3
	case $id in
	done) ralph task done $id ;;
	failed) exit 1 ;;
	question) ralph task ask $id Which? ;;
	active)
		until test -e .ralph/go; do sleep 0.1; done
		ralph task done $id ;;
	esac
	exit 0
done
ralph task claim blocked && exit 1
`

// Wherever a task is listed, the same word says what its state is.
func TestTaskStatesHaveOneWord(t *testing.T) {
	states := []struct{ id, status, outcome string }{
		{"done", "done", "done"},
		{"failed", "open", "failed"},
		{"released", "open", "released"},
		{"question", "question", "question"},
		{"active", "active", ""},
		{"open", "open", ""},
		{"waiting", "waiting", ""},
		{"blocked", "blocked", "failed"},
	}
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[agents.mine]\ncommand = [\"sh\", \".ralph/agent.sh\"]\n")
		w.setenv("RALPH_AGENT", "mine")
		w.setenv("RALPH_IMAGE", engines.BaseImage())
		w.plan(t, task{ID: "blocked", Title: "T"})
		w.write(t, w.pathInside(t, ".ralph/agent.sh"), "ralph task claim blocked >/dev/null; exit 1\n")
		first := w.ralph(t, "build", "-n", "3")
		assert.Check(t, is.Regexp(`(?m)^3 +blocked +failed `, first.stdout))

		for _, s := range states[:len(states)-1] {
			args := []string{"task", "create", s.id, "T"}
			if s.id == "waiting" {
				args = append(args, "--deps", "open")
			}
			w.ok(t, args...)
		}
		w.write(t, w.pathInside(t, ".ralph/agent.sh"), statesAgent)
		build := start(t, w.docker("ralph", "build", "-n", "5"))
		waitForFile(t, w.pathInside(t, ".ralph/active"))
		w.waitForActivity(t, manage.Working)

		var tasks []taskjson.Task
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "task", "list", "--format", "json")), &tasks))
		inJSON, counts := map[string]string{}, map[string]int{}
		for _, task := range tasks {
			inJSON[task.ID] = task.Status
			counts[task.Status]++
		}
		list := w.ok(t, "task", "list")
		for _, s := range states {
			assert.Check(t, is.Regexp(`(?m)^`+s.id+` +\d `+s.status+` `, list))
			assert.Check(t, is.Regexp(`(?m)^Status: +`+s.status+`$`, w.ok(t, "task", "show", s.id)))
			assert.Check(t, is.Contains(w.ok(t, "task", "show", s.id, "--format", "json"), `"status": "`+s.status+`"`))
			assert.Check(t, is.Equal(inJSON[s.id], s.status), s.id)
		}
		var inStatus struct {
			Loop struct{ Counts map[string]int }
		}
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "status", "--format", "json")), &inStatus))
		assert.Check(t, is.DeepEqual(inStatus.Loop.Counts, counts))
		assert.Check(t, is.Contains(w.ok(t, "status"), "1 done, 7 left (1 active, 3 open, 1 waiting, 1 blocked, 1 question)\n"))

		w.write(t, w.pathInside(t, ".ralph/go"), "")
		printed := build.wait(t).stdout
		for _, s := range states[:4] {
			assert.Check(t, is.Contains(printed, ": "+s.outcome+" "+s.id+" | "))
			assert.Check(t, is.Regexp(`(?m)^\d +`+s.id+` +`+s.outcome+` `, printed))
		}
		const summary = "Total: 5 runs, 2 tasks done, 1 failed, 1 released, 6 left, "
		assert.Check(t, is.Contains(printed, summary))
		text := w.ok(t, "status")
		assert.Check(t, strings.Contains(text, "Summary    "+summary), text)
	})
}
