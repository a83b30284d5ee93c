package manage

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

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

func TestTaskNames(t *testing.T) {
	sb := lifecycle.Sandbox{Name: "box", Root: "/src/shop", State: lifecycle.Running, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}
	in := func(d *execDriver) host.Located { return host.Located{Sandbox: sb, Backend: host.Backend{Driver: d}} }

	good := &execDriver{stdout: `[{"id":"a","title":"A\u001b[2J\nB"},{"id":"b","title":"B"}]`, stderr: "Warning: a lot\n"}
	tasks, err := taskNames(t.Context(), in(good), []string{"open", "active"})
	assert.NilError(t, err)
	assert.DeepEqual(t, tasks, []TaskName{{"a", "A B"}, {"b", "B"}})
	assert.DeepEqual(t, good.process.Args, []string{"ralph", "task", "list", "--status", "open,active", "--format", "json"})
	assert.DeepEqual(t, good.process.Env, []string{"RALPH_SCOPE_REPO=acme/shop", "RALPH_SCOPE_BRANCH=main"})
	assert.Equal(t, good.process.Dir, "/src/shop")
	assert.Assert(t, good.process.Stdin == nil && !good.process.Lasting)

	endless := &execDriver{stdout: "[" + strings.Repeat(`{"id":"a"},`, taskListMax/10)}
	tasks, err = taskNames(t.Context(), in(endless), nil)
	assert.NilError(t, err)
	assert.Equal(t, len(tasks), (taskListMax-1)/len(`{"id":"a"},`))
	assert.DeepEqual(t, endless.process.Args, []string{"ralph", "task", "list", "--format", "json"})

	for _, tc := range []struct {
		driver execDriver
		want   string
	}{
		{execDriver{stdout: `[{"id":"a"}]`, stderr: "Error: no\x1b[2J database\n", code: 1}, "listing the tasks of the sandbox box: exit code 1: Error: no database"},
		{execDriver{err: errors.New("no such container")}, "listing the tasks of the sandbox box: no such container"},
		{execDriver{stdout: `{"id":"a"}`}, "listing the tasks of the sandbox box: not a JSON array"},
		{execDriver{stdout: "ID P\n"}, "listing the tasks of the sandbox box: invalid character"},
	} {
		_, err = taskNames(t.Context(), in(&tc.driver), nil)
		assert.ErrorContains(t, err, tc.want)
	}
}
