package dockersandbox

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

func TestCommandLines(t *testing.T) {
	d := &Dialect{Docker: "/usr/bin/docker", Globals: []string{"--context=desktop-linux", "--config=/c"}}
	client, err := d.Client(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, client.Path, "/usr/bin/docker")
	assert.DeepEqual(t, client.Args, []string{"--context=desktop-linux", "--config=/c", "sandbox"})
	assert.DeepEqual(t, d.Globals, []string{"--context=desktop-linux", "--config=/c"})

	create, err := d.Create(t.Context(), lifecycle.Spec{Name: "ralph-a-b-main", Image: "i:1", Root: "/src/b"},
		[]microvm.Mount{{Path: "/src/main/.git"}, {Path: "/state/guest", ReadOnly: true}})
	assert.NilError(t, err)
	assert.DeepEqual(t, create, []string{"create", "-t", "i:1", "--name", "ralph-a-b-main", "shell", "/src/b", "/src/main/.git", "/state/guest:ro"})
	assert.DeepEqual(t, d.Start("n"), []string{"run", "--detached", "n"})
	assert.DeepEqual(t, d.Exec("n", microvm.ExecOptions{Terminal: true, Env: []string{"A", "B"}, Dir: "/src/b"}),
		[]string{"exec", "-i", "-t", "-w", "/src/b", "-e", "A", "-e", "B", "n"})
}

func TestWithoutDocker(t *testing.T) {
	_, err := (&Dialect{}).Client(t.Context())
	assert.ErrorContains(t, err, "docker command is not on PATH")
}

// Each failure has the remedy that mends it, and none means that there is no
// such sandbox.
func TestFailuresAreToldApart(t *testing.T) {
	d := &Dialect{}
	for _, tc := range []struct {
		name string
		call microvm.CallError
		want string // empty for nothing that is known
	}{
		{"4.80 and later", microvm.CallError{Stdout: "docker sandbox is deprecated and has been removed. Use sbx."}, "4.80 removed it"},
		{"no plugin", microvm.CallError{Code: 1, Stderr: "docker: 'sandbox' is not a docker command.\nSee 'docker --help'"}, `there is no "docker sandbox" here`},
		{"no plugin, a current CLI", microvm.CallError{Code: 1, Stderr: "docker: unknown command: docker sandbox"}, `there is no "docker sandbox" here`},
		{"daemon down", microvm.CallError{Code: 1, Stderr: "dial unix /run/sandboxd.sock: connect: connection refused"}, "start Docker Desktop"},
		{"no answer", microvm.CallError{Typed: "docker sandbox ls", Limit: time.Second}, "Restart Docker Desktop"},
		{"something else", microvm.CallError{Code: 1, Stderr: "disk full"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := d.Explain(&tc.call)
			assert.Check(t, !d.Missing(&tc.call))
			if tc.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.Check(t, is.ErrorContains(err, tc.want))
		})
	}
	assert.Check(t, errors.Is(d.Explain(&microvm.CallError{Code: 1, Stderr: "docker: unknown command: docker sandbox"}), lifecycle.ErrNotInstalled))
	for said, want := range map[string]bool{
		`Error: no sandbox named "x"`:                                                  true,
		"sandbox 'x' not found":                                                        true,
		"Error: docker sandbox: connect to daemon: socket not found":                   false,
		`docker: exec: "docker-sandbox": executable file not found in $PATH`:           false,
		`creating the sandbox: image "docker/sandbox-templates:x": manifest not found`: false,
	} {
		assert.Check(t, is.Equal(d.Missing(&microvm.CallError{Code: 1, Stderr: said}), want), said)
	}
}
