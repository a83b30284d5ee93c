package manage

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

func TestTasksAreEditedAsText(t *testing.T) {
	task := backlog.NewTask{
		Slug: "auth/02", Title: `It's "new"`, Priority: 1, Category: "feat", SpecRef: "auth.md",
		Description: "One\n\"\"\"two\"\"\"\n\ttab \x1b[2J \\", Steps: []string{"route", "a\nb"}, Deps: []string{"auth/01"},
	}
	text, err := encodeTask(task)
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(text, "# Task auth/02\ntitle = "), text)
	assert.Assert(t, !strings.Contains(text, "\x1b"))
	again, err := decodeTask(task, text)
	assert.NilError(t, err)
	assert.DeepEqual(t, again, task)

	edited, err := decodeTask(task, "title = 'New'\npriority = 0\nsteps = ['x']\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, edited, backlog.NewTask{Slug: "auth/02", Title: "New", Steps: []string{"x"}})
	for text, want := range map[string]string{
		"title = ''":                     "the edited task has no title",
		"title = 'x'\npriority = -1":     "the priority of the edited task is negative",
		"title = 'x'\nstatus = 'done'":   "reading the edited task: ",
		"title = 'x'\npriority = 'high'": "reading the edited task: line 2: ",
		"title = 'x'\nsteps = [":         "reading the edited task: line 2: ",
	} {
		_, err := decodeTask(task, text)
		assert.ErrorContains(t, err, want)
	}
}
