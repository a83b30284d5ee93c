package microvm

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestCommandLines(t *testing.T) {
	globals := []string{"--context=desktop-linux", "--config=/c"}
	d := New(DockerSandbox, Options{Docker: "/usr/bin/docker", Globals: globals})
	c, err := d.client(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, c.path, "/usr/bin/docker")
	assert.DeepEqual(t, c.args, []string{"--context=desktop-linux", "--config=/c", "sandbox"})
	assert.DeepEqual(t, globals, []string{"--context=desktop-linux", "--config=/c"})

	opts := execOptions{terminal: true, env: []string{"A", "B"}, dir: "/src/b"}
	assert.DeepEqual(t, d.exec("n", opts, "true"), []string{"exec", "-i", "-t", "-w", "/src/b", "-e", "A", "-e", "B", "n", "true"})
	assert.DeepEqual(t, New(Sbx, Options{}).exec("n", opts, "true"), []string{"exec", "-i", "-t", "-w", "/src/b", "-e", "A", "-e", "B", "n", "--", "true"})
	assert.Equal(t, d.ListCommand(), "docker sandbox ls")
	assert.Equal(t, New(Sbx, Options{}).ListCommand(), "sbx ls")
}

func TestWithoutDocker(t *testing.T) {
	_, err := New(DockerSandbox, Options{}).client(t.Context())
	assert.ErrorContains(t, err, "docker is not on PATH")
}

// Each failure has its remedy, and none means that the sandbox does not exist.
func TestExplainPluginFailures(t *testing.T) {
	d := New(DockerSandbox, Options{})
	for _, tc := range []struct {
		name string
		call callError
		want string // empty for nothing that is known
	}{
		{"4.80 and later", callError{stdout: "docker sandbox is deprecated and has been removed. Use sbx."}, "4.80 removed it"},
		{"no plugin", callError{code: 1, stderr: "docker: 'sandbox' is not a docker command.\nSee 'docker --help'"}, `no "docker sandbox"`},
		{"no plugin, a current CLI", callError{code: 1, stderr: "docker: unknown command: docker sandbox"}, `no "docker sandbox"`},
		{"daemon down", callError{code: 1, stderr: "dial unix /run/sandboxd.sock: connect: connection refused"}, "start Docker Desktop"},
		{"something else", callError{code: 1, stderr: "disk full"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := d.explain(&tc.call)
			assert.Check(t, !tc.call.missing())
			if tc.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.Check(t, is.Contains(WithHints(err), tc.want))
		})
	}
	assert.Check(t, errors.Is(d.explain(&callError{code: 1, stderr: "docker: unknown command: docker sandbox"}), lifecycle.ErrNotInstalled))
}

func TestTimeoutHint(t *testing.T) {
	for name, remedy := range map[string]string{Sbx: `run "sbx daemon restart"`, DockerSandbox: "restart Docker Desktop"} {
		d := New(name, Options{})
		err := d.withHint(&callError{command: d.cli + " ls", limit: time.Second})
		assert.ErrorContains(t, err, "did not answer within 1s")
		assert.DeepEqual(t, hint.Of(err), []string{remedy})
	}
}
