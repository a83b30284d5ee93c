package manage

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestParseTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		list string
		want []TaskName
	}{
		"nothing": {},
		"two": {
			"## Task a/1\nid: a/1\ntitle: First: of all\npriority: 0\nsteps:\n- title: no\n\n## Task b\nid: b\ntitle: Second\npriority: 1\n",
			[]TaskName{{"a/1", "First: of all"}, {"b", "Second"}},
		},
		"no title":                   {"## Task a\nid: a\npriority: 0\n", []TaskName{{ID: "a"}}},
		"cut off in a heading":       {"## Task a\nid: a\ntitle: A\n\n## Task bcd\nid: b", []TaskName{{"a", "A"}}},
		"ID of two lines":            {"## Task a\nb\nid: a\nb\ntitle: A\n", []TaskName{{"a", "A"}}},
		"heading only":               {"## Task a\n", nil},
		"duplicate":                  {"## Task a\nid: a\ntitle: A\n\n## Task a\nid: a\ntitle: B\n", []TaskName{{"a", "A"}}},
		"fields without a heading":   {"id: a\ntitle: A\n", nil},
		"title of several lines":     {"## Task a\nid: a\ntitle: A\ntitle: B\nid: c\n", []TaskName{{"a", "A"}}},
		"an error instead of a list": {"Error: not inside a git repository\n", nil},
	} {
		t.Run(name, func(t *testing.T) { assert.DeepEqual(t, parseTasks(tc.list), tc.want) })
	}
}

func FuzzParseTasks(f *testing.F) {
	f.Add("## Task a/1\nid: a/1\ntitle: First\npriority: 0\n\n## Task b\nid: b\n")
	f.Add("## Task \nid: \ntitle: \x1b[2J\n")
	f.Fuzz(func(t *testing.T, list string) {
		known := map[string]bool{}
		for _, task := range parseTasks(list) {
			assert.Assert(t, task.ID != "" && !known[task.ID] && !strings.Contains(task.ID+task.Title, "\n"))
			assert.Assert(t, is.Contains(list, "## Task "+task.ID))
			known[task.ID] = true
		}
	})
}

// execDriver is a driver whose sandbox prints the same output for every process.
type execDriver struct {
	lifecycle.Driver
	stdout, stderr string
	code           int
	err            error
	process        lifecycle.Process
}

func (d *execDriver) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	d.process = p
	_, _ = io.WriteString(p.Stdout, d.stdout)
	_, _ = io.WriteString(p.Stderr, d.stderr)
	return d.code, d.err
}

func TestAskTasks(t *testing.T) {
	sb := lifecycle.Sandbox{Name: "box", Root: "/src/shop", State: lifecycle.Running, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}

	good := &execDriver{stdout: "## Task a\nid: a\ntitle: A\n", stderr: "Warning: a lot\n"}
	tasks, err := askTasks(t.Context(), host.Located{Sandbox: sb, Backend: host.Backend{Driver: good}}, []string{"open", "active"})
	assert.NilError(t, err)
	assert.DeepEqual(t, tasks, []TaskName{{"a", "A"}})
	assert.DeepEqual(t, good.process.Args, []string{"ralph", "task", "list", "--markdown", "--status", "open,active"})
	assert.DeepEqual(t, good.process.Env, []string{"RALPH_SCOPE_REPO=acme/shop", "RALPH_SCOPE_BRANCH=main"})
	assert.Equal(t, good.process.Dir, "/src/shop")
	assert.Assert(t, good.process.Stdin == nil && !good.process.Lasting)

	endless := &execDriver{stdout: strings.Repeat("## Task a\nid: a\n", taskListMax/10)}
	tasks, err = askTasks(t.Context(), host.Located{Sandbox: sb, Backend: host.Backend{Driver: endless}}, nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, tasks, []TaskName{{ID: "a"}})
	assert.DeepEqual(t, endless.process.Args, []string{"ralph", "task", "list", "--markdown"})

	bad := &execDriver{stdout: "## Task a\nid: a\n", stderr: "Error: no\x1b[2J database\n", code: 1}
	_, err = askTasks(t.Context(), host.Located{Sandbox: sb, Backend: host.Backend{Driver: bad}}, nil)
	assert.Error(t, err, "listing the tasks of the sandbox box: exit code 1: Error: no database")

	gone := &execDriver{err: errors.New("no such container")}
	_, err = askTasks(t.Context(), host.Located{Sandbox: sb, Backend: host.Backend{Driver: gone}}, nil)
	assert.Error(t, err, "listing the tasks of the sandbox box: no such container")
}
