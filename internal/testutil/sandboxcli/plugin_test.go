package sandboxcli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/sandboxclitest"
)

func TestPluginMetadata(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	sandboxclitest.Build(t, bin)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "docker-sandbox"), "docker-cli-plugin-metadata")
	cmd.Env = []string{} // it needs no state folder
	out, err := cmd.Output()
	assert.NilError(t, err)
	var got map[string]string
	assert.NilError(t, json.Unmarshal(out, &got))
	assert.DeepEqual(t, got, map[string]string{
		"SchemaVersion": "0.1.0", "Vendor": "Docker Inc.", "Version": "v0.13.0", "ShortDescription": "Docker Sandbox",
	})
}

func TestGlobalFlagsOfDocker(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	for _, flags := range [][]string{
		{"--context", "x"}, {"-c", "x", "--config=/y"}, {"-H", "unix:///x", "--tls", "-D", "-l", "debug"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "docker-sandbox"), append(flags, "sandbox", "ls", "--json")...)
		cmd.Env = r.Env()
		out, err := cmd.Output()
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(string(out), `"vms"`))
	}
}

func TestPluginThroughDocker(t *testing.T) {
	t.Parallel()
	docker, err := exec.LookPath("docker")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no docker program")
		}
		t.Skip("there is no docker program")
	}
	r := newFixture(t, nil)
	r.plugin = true
	r.create(t, "box")
	run := func(args ...string) result {
		cmd := exec.CommandContext(t.Context(), docker, args...)
		cmd.Env = r.Env()
		cmd.Stdin = strings.NewReader("in")
		return finish(t, cmd)
	}
	res := run("sandbox", "exec", "-i", "box", "sh", "-c", "cat; echo err >&2; exit 4")
	assert.Equal(t, res, result{4, "in", "err\n"})
	assert.Assert(t, strings.Contains(run("sandbox", "version").out, "github.com/docker/sandboxes/cli-plugin v0.13.0 "))
}

// The Docker CLI passes a signal on by closing its socket.
func TestKilledDocker(t *testing.T) {
	t.Parallel()
	docker, err := exec.LookPath("docker")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no docker program")
		}
		t.Skip("there is no docker program")
	}
	r := newFixture(t, nil)
	r.plugin = true
	r.create(t, "box")
	cmd := exec.CommandContext(t.Context(), docker, "sandbox", "exec", "box", "sh", "-c", chatter)
	cmd.Env = r.Env()
	assert.NilError(t, cmd.Start())
	eventually(t, func() bool { return exists(filepath.Join(r.ws, "ready")) })
	assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	assert.Assert(t, !exists(filepath.Join(r.ws, "done")))
	assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
	eventually(t, func() bool { return exists(filepath.Join(r.ws, "done")) })
}

func TestCalls(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	calls, err := sandboxcli.Calls(r.Dir)
	assert.NilError(t, err)
	assert.Equal(t, len(calls), 0)
	r.ok(t, "ls", "--json")
	r.plugin = true
	r.run(t, "", "exec", "a b", "")
	calls, err = sandboxcli.Calls(r.Dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, calls, []sandboxcli.Call{
		{CLI: "sbx", Args: []string{"ls", "--json"}}, {CLI: "docker-sandbox", Args: []string{"sandbox", "exec", "a b", ""}},
	})
}

func TestRemovedPlugin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.plugin = true
	for _, exit := range []int{0, 1} {
		for _, onStderr := range []bool{false, true} {
			r.Set(t, func(s *sandboxcli.Settings) {
				s.Faults.Removed, s.Faults.RemovedExit, s.Faults.RemovedStderr = true, exit, onStderr
			})
			for _, args := range [][]string{{"ls", "--json"}, {"version"}, {"exec", "x", "y"}, {"whatever"}} {
				res := r.run(t, "", args...)
				assert.Equal(t, res.code, exit)
				assert.Assert(t, strings.Contains(res.out+res.err, "removed"))
				assert.Equal(t, res.out == "", onStderr)
			}
		}
	}
}

func TestLegacyPlugin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.plugin = true
	r.create(t, "box")
	r.Set(t, func(s *sandboxcli.Settings) { s.Faults.Legacy = true })
	for _, args := range [][]string{{"create", "shell", r.ws}, {"exec", "box", "true"}, {"stop", "box"}} {
		res := r.run(t, "", args...)
		assert.Equal(t, res.code, 1)
		assert.Assert(t, strings.Contains(res.err, "unknown command"), "%s", res.err)
	}
	assert.Equal(t, r.run(t, "", "ls", "--json").code, 125)
	var got []struct {
		Name   string
		Labels map[string]string
	}
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "inspect", "box")), &got))
	assert.Equal(t, got[0].Name, "box")
	assert.Equal(t, got[0].Labels["com.docker.sandbox.workingDirectory"], r.ws)
}

func TestNetworkAndReset(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.plugin = true
	r.create(t, "box")
	r.ok(t, "network", "proxy", "box", "--policy", "deny", "--allow-host", "a", "--allow-host", "b")
	assert.Equal(t, r.run(t, "", "network", "proxy", "nope", "--policy", "deny").code, 1)
	assert.Assert(t, json.Valid([]byte(r.ok(t, "network", "log", "--json"))))
	assert.Equal(t, r.run(t, "n\n", "reset").code, 1)
	assert.Equal(t, len(r.list(t)), 1)
	r.ok(t, "reset", "--force")
	assert.Equal(t, len(r.list(t)), 0)
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	other := filepath.Join(r.Bin, "other")
	assert.NilError(t, os.Symlink(filepath.Join(r.Bin, "sbx"), other))
	res := finish(t, exec.CommandContext(t.Context(), other, "ls"))
	assert.Equal(t, res.code, 2)
	assert.Assert(t, strings.Contains(res.err, "sbx or docker-sandbox"))

	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "sbx"), "ls")
	cmd.Env = []string{}
	res = finish(t, cmd)
	assert.Equal(t, res.code, 1)
	assert.Assert(t, strings.Contains(res.err, sandboxcli.DirEnv))

	r.Set(t, func(s *sandboxcli.Settings) { s.Mode = "vm" })
	res = r.run(t, "", "ls")
	assert.Equal(t, res.code, 1)
	assert.Assert(t, strings.Contains(res.err, `"vm"`), "%s", res.err)
}

// Process mode protects nothing, so root may not use it.
func TestRootIsRejected(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	r := newFixture(t, nil)
	bin := t.TempDir()
	sandboxclitest.Build(t, bin)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "sbx"), "ls")
	cmd.Env = r.Env()
	res := finish(t, cmd)
	assert.Equal(t, res.code, 1)
	assert.Assert(t, strings.Contains(res.err, "refuses to do so as root"))
}
