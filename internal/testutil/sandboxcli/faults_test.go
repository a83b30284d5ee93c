package sandboxcli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
)

type settings = sandboxcli.Settings

// Each failure has exit code 1 and an error.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*settings)
		args   []string
		in     string
		want   string // of stderr
	}{
		{name: "unknown flag", args: []string{"ls", "--x"}, want: "ERROR: unknown flag: --x\n"},
		{name: "no such sandbox", args: []string{"exec", "nope", "true"}, want: "ERROR: no sandbox named 'nope'\n\nTo create one:\n  sbx create AGENT WORKSPACE\n"},
		{name: "a name that is none", args: []string{"exec", "../box", "true"}, want: "ERROR: no sandbox named '../box'\n"},
		{name: "stop what is not there", args: []string{"stop", "nope"}, want: "sandbox 'nope' not found\n"},
		{name: "rm what is not there", args: []string{"rm", "--force", "nope"}, want: "sandbox 'nope' not found\n"},
		{name: "empty argument", args: []string{"exec", "box", "echo", ""}, want: "400 Bad Request: cmd element 1 is empty\n"},
		{name: "detached", args: []string{"exec", "-d", "box", "true"}, want: "--detach is not supported for exec\n"},
		{name: "duplicate", args: []string{"create", "--name", "box", "shell", "/"}, want: "409 Conflict"},
		{name: "reserved name", args: []string{"create", "--name", "default", "shell", "/"}, want: `invalid sandbox name "default"`},
		{name: "short name", args: []string{"create", "--name", "x", "shell", "/"}, want: "invalid sandbox name"},
		{name: "underscore", args: []string{"create", "--name", "a_b", "shell", "/"}, want: "invalid sandbox name"},
		{name: "long name", args: []string{"create", "--name", strings.Repeat("x", 64), "shell", "/"}, want: "invalid sandbox name"},
		{name: "dash at the end", args: []string{"create", "--name", "box-", "shell", "/"}, want: "invalid sandbox name"},
		{name: "period at the end", args: []string{"create", "--name", "box.", "shell", "/"}, want: "invalid sandbox name"},
		{name: "run what is not there", args: []string{"run", "--detached", "--name", "nope"}, want: "no sandbox named 'nope'"},
		{name: "rule of what is not there", args: []string{"policy", "deny", "network", "--sandbox", "nope", "a.example"}, want: "sandbox 'nope' not found\n"},
		{name: "rule of no network", args: []string{"policy", "allow", "host", "a.example"}, want: `unknown command "host"`},
		{name: "URL in a rule", args: []string{"policy", "allow", "network", "a.example,https://b.example"}, want: `invalid pattern "https://b.example"`},
		{name: "wildcard in the middle", args: []string{"policy", "deny", "network", "a.*.example"}, want: "invalid pattern"},
		{name: "empty pattern", args: []string{"policy", "deny", "network", "a.example,"}, want: "invalid pattern"},
		{name: "deny beside an allow", args: []string{"policy", "deny", "network", "x.example,api.anthropic.com:443"}, want: `deny: "api.anthropic.com:443" conflicts with existing allow rule`},
		{name: "rule removed without --force", args: []string{"policy", "rm", "network", "--resource", "api.anthropic.com:443"}, want: "use --force"},
		{name: "rule that is not there", args: []string{"policy", "rm", "network", "-f", "--id", "none"}, want: "no such rule"},
		{name: "rules of two", args: []string{"policy", "ls", "box", "other", "--json"}, want: "argument"},
		{name: "log of two", args: []string{"policy", "log", "box", "other", "--json"}, want: "argument"},
		{name: "keys of something", args: []string{"secret", "ls", "box"}, want: "argument"},
		{name: "relative workspace", args: []string{"create", "--name", "new", "shell", "ws"}, want: "not an absolute path"},
		{name: "missing workspace", args: []string{"create", "--name", "new", "shell", "/no/such"}, want: "does not exist"},
		{name: "unknown agent", args: []string{"create", "--name", "new", "gemini", "/"}, want: "unknown agent"},
		{name: "little memory", args: []string{"create", "--name", "new", "-m", "100m", "shell", "/"}, want: "at least 512 MiB"},
		{name: "image that is not there", args: []string{"create", "--name", "new", "--pull", "never", "-t", "x:y", "shell", "/"}, want: "not in the image store"},
		{name: "no KVM", change: func(s *settings) { s.Faults.KVM = true }, args: []string{"create", "--name", "new", "shell", "/"}, want: "/dev/kvm"},
		{name: "no policy", change: func(s *settings) { s.PolicyInitialised = false }, args: []string{"create", "--name", "new", "shell", "/"}, want: "sbx policy init"},
		{name: "no policy, old", change: func(s *settings) { s.PolicyInitialised, s.Version = false, "0.33.0" }, args: []string{"create", "--name", "new", "shell", "/"}, want: "sbx policy set-default"},
		{name: "not logged in", change: func(s *settings) { s.LoggedIn = false }, args: []string{"ls"}, want: "ERROR: You are not authenticated to Docker"},
		{name: "no daemon", change: func(s *settings) { s.Faults.NoDaemon = true }, args: []string{"ls"}, want: "ERROR: ensure daemon: daemon failed to start properly after 10 retries, check logs at: "},
		{name: "lost engine", change: func(s *settings) { s.EngineUp = false }, args: []string{"exec", "box", "true"}, want: "backend unavailable"},
		{name: "declined", args: []string{"rm", "box"}, in: "n\n", want: "Remove sandbox 'box'? This cannot be undone. (y/N): "},
		{name: "nobody answers", args: []string{"rm", "box"}, want: "Remove sandbox 'box'? This cannot be undone. (y/N): "},
		{name: "no input", args: []string{"--no-input", "rm", "box"}, in: "y\n", want: "sbx rm --force box"},
		{name: "no input behind the verb", args: []string{"rm", "--no-input", "box"}, in: "y\n", want: "sbx rm --force box"},
		{name: "no input, old", change: func(s *settings) { s.Version = "0.50.1" }, args: []string{"--no-input", "ls"}, want: "ERROR: unknown flag: --no-input\n"},
		{name: "very old", change: func(s *settings) { s.Version = "0.23.0" }, args: []string{"stop", "x1"}, want: "Error: sandbox 'x1' not found\n"},
		{name: "no env then", change: func(s *settings) { s.Version = "0.38.0" }, args: []string{"create", "-e", "A=b", "shell", "/"}, want: "unknown shorthand flag: 'e'"},
		{name: "no JSON of secrets then", change: func(s *settings) { s.Version = "0.41.0" }, args: []string{"secret", "ls", "--json"}, want: "unknown flag: --json"},
		{name: "no JSON of the version then", change: func(s *settings) { s.Version = "0.41.0" }, args: []string{"version", "--json"}, want: "unknown flag: --json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			r.create(t, "box")
			if tc.change != nil {
				r.Set(t, tc.change)
			}
			res := r.run(t, tc.in, tc.args...)
			assert.Check(t, is.Equal(res.code, 1))
			assert.Check(t, is.Equal(res.out, ""))
			assert.Check(t, strings.Contains(res.err, tc.want), "%s", res.err)
			r.Set(t, func(s *settings) { *s = sandboxcli.Defaults() })
			assert.Equal(t, len(r.list(t)), 1)
		})
	}
}

func TestErrorsOfThePlugin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.LoggedIn, s.PolicyInitialised, s.DaemonUp = false, false, false })
	r.plugin = true
	r.ok(t, "create", "-q", "--name", "a_b+c.d-e", "--pull-template", "missing", "-t", "x", "shell", r.ws)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "nope", "true"}, "nope"},
		{[]string{"create", "--name", "new", "shell"}, "wrong number of arguments"},
		{[]string{"inspect", "x"}, "unknown command: docker sandbox inspect"},
		{[]string{"exec", "-d", "nope", "true"}, "nope"},
	} {
		res := r.run(t, "", tc.args...)
		assert.Check(t, is.Equal(res.code, 1), "%q", tc.args)
		assert.Check(t, strings.Contains(res.err, tc.want), "%s", res.err)
	}
	assert.Equal(t, r.run(t, "", "ls", "--x").code, 125)
	r.ok(t, "exec", "a_b+c.d-e", "test", "x", "!=", "")
}

func TestListFaults(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		root := map[bool]string{false: "sandboxes", true: "vms"}[r.plugin]
		whole := r.ok(t, "ls", "--json")
		object := func(out string) map[string]any {
			var got map[string][]map[string]any
			assert.NilError(t, json.Unmarshal([]byte(out), &got))
			assert.Equal(t, len(got[root]), 1)
			return got[root][0]
		}
		for _, tc := range []struct {
			name  string
			fault sandboxcli.Faults
			check func(out string)
		}{
			{"none", sandboxcli.Faults{}, func(out string) { assert.Equal(t, out, whole) }},
			{"empty", sandboxcli.Faults{EmptyList: true}, func(out string) {
				assert.Equal(t, strings.Join(strings.Fields(out), ""), `{"`+root+`":[]}`)
			}},
			{"notice", sandboxcli.Faults{UpdateNotice: true}, func(out string) {
				rest, ok := strings.CutPrefix(out, whole)
				assert.Assert(t, ok)
				assert.Equal(t, strings.Contains(rest, "Docker Sandboxes Update Available"), !r.plugin)
			}},
			{"id", sandboxcli.Faults{NoID: true}, func(out string) { assert.Assert(t, object(out)["id"] == nil) }},
			{"workspaces", sandboxcli.Faults{NoWorkspaces: true}, func(out string) { assert.Assert(t, object(out)["workspaces"] == nil) }},
			{"truncated", sandboxcli.Faults{TruncatedList: true}, func(out string) { assert.Equal(t, out, whole[:(len(whole)-1)/2]) }},
			{"garbage", sandboxcli.Faults{GarbageList: true}, func(out string) { assert.Assert(t, !strings.Contains(out, "{")) }},
			{"extra", sandboxcli.Faults{ExtraFields: true}, func(out string) {
				var got map[string]any
				assert.NilError(t, json.Unmarshal([]byte(out), &got))
				assert.Assert(t, got["x_future"] != nil)
			}},
		} {
			r.Set(t, func(s *settings) { s.Faults = tc.fault })
			t.Log(tc.name)
			tc.check(r.ok(t, "ls", "--json"))
		}
		r.Set(t, func(s *settings) { s.Faults = sandboxcli.Faults{} })
		assert.Equal(t, r.ok(t, "ls", "-q"), "box\n")
		if !r.plugin {
			r.Set(t, func(s *settings) { s.Version = "0.42.9" })
			assert.Assert(t, object(r.ok(t, "ls", "--json"))["created_at"] == nil)
			r.Set(t, func(s *settings) { s.Version = "0.32.0" })
			assert.Assert(t, object(r.ok(t, "ls", "--json"))["id"] == nil)
		}
	})
}

func TestDaemonStarts(t *testing.T) {
	t.Parallel()
	for _, onStdout := range []bool{false, true} {
		r := newFixture(t, func(s *settings) { s.DaemonUp, s.Faults.StartLinesStdout = false, onStdout })
		assert.Assert(t, strings.Contains(r.ok(t, "daemon", "status"), "Status: stopped\n"))
		assert.Assert(t, strings.Contains(r.ok(t, "version"), "sbx version: v0.53.0 "))
		res := r.run(t, "", "ls", "--json")
		lines, rest := res.err, res.out
		if onStdout {
			lines, rest, _ = strings.Cut(res.out, "{")
			rest = "{" + rest
		}
		assert.Assert(t, strings.HasPrefix(lines, "Starting sandboxd daemon...\nDaemon started (PID: "), "%q", lines)
		assert.Equal(t, strings.Count(lines, "\n"), 3)
		assert.Assert(t, json.Valid([]byte(rest)), "%s", rest)
		again := r.run(t, "", "ls", "--json")
		assert.Equal(t, again.out+again.err, rest)
		assert.Assert(t, strings.Contains(r.ok(t, "daemon", "status", "--json"), `"running"`))
	}
}

func TestLostEngine(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.create(t, "box")
	r.Set(t, func(s *settings) { s.EngineUp = false })
	assert.Equal(t, len(r.list(t)), 0)
	assert.Equal(t, r.diagnosis(t)["fail"], 0, "diagnose does not see it")
	r.ok(t, "daemon", "restart")
	assert.Equal(t, r.status(t, "box"), "running")
}

// diagnosis counts the checks by status.
func (r fixture) diagnosis(t *testing.T) map[string]int {
	t.Helper()
	var got struct{ Summary map[string]int }
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "diagnose", "--output", "json")), &got))
	assert.Assert(t, got.Summary["pass"] > 0)
	return got.Summary
}

func TestLogin(t *testing.T) {
	t.Parallel()
	two := 2
	r := newFixture(t, func(s *settings) { s.Faults.LoginLapseAfter = &two })
	assert.Equal(t, r.diagnosis(t)["fail"], 0)
	r.ok(t, "ls")
	r.ok(t, "ls")
	assert.Equal(t, r.run(t, "", "ls").code, 1)
	assert.Equal(t, r.diagnosis(t)["fail"], 1)
	assert.Equal(t, r.run(t, "", "login", "--username", "u", "--password-stdin").code, 1)
	assert.Equal(t, r.run(t, "secret\n", "login", "--username", "u", "--password-stdin").code, 0)
	r.ok(t, "ls")
}

func TestVanishOnSleep(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		r.create(t, "asleep")
		r.ok(t, "stop", "asleep")
		r.Set(t, func(s *settings) { s.Faults.VanishOnSleep = true })
		eventually(t, func() bool { return r.status(t, "box") == "" })
		assert.Equal(t, r.status(t, "asleep"), "stopped")
		r.create(t, "box")
		assert.Equal(t, r.status(t, "box"), "running")
	})
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		for made, fault := range map[bool]sandboxcli.Faults{false: {CrashBeforeCreate: true}, true: {CrashAfterCreate: true}} {
			r.Set(t, func(s *settings) { s.Faults = fault })
			cmd := r.command(t, "create", "--name", "box", "shell", r.ws)
			out, _ := cmd.CombinedOutput()
			assert.Equal(t, string(out), "")
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			assert.Assert(t, ok)
			assert.Equal(t, status.Signal(), syscall.SIGKILL)
			r.Set(t, func(s *settings) { s.Faults = sandboxcli.Faults{} })
			assert.Equal(t, len(r.list(t)) == 1, made)
			r.run(t, "y\n", "rm", "box")
		}
	})
}

func TestHanging(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		r.Set(t, func(s *settings) { s.Faults.HangList, s.Faults.HangExec = true, true })
		for _, args := range [][]string{{"ls", "--json"}, {"exec", "box", "touch", "ran"}} {
			cmd := r.command(t, args...)
			assert.NilError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				t.Errorf("%q ended: %v", args, err)
			case <-time.After(300 * time.Millisecond):
			}
			assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
			assert.ErrorContains(t, <-ended, "terminated")
		}
		assert.Assert(t, !exists(filepath.Join(r.ws, "ran")))
	})
}

func TestDetachedExecOfOldVersionsHangs(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.Version = "0.39.0" })
	r.create(t, "box")
	cmd := r.command(t, "exec", "-d", "box", "touch", "ran")
	assert.NilError(t, cmd.Start())
	eventually(t, func() bool { return exists(filepath.Join(r.ws, "ran")) })
	assert.NilError(t, cmd.Process.Signal(syscall.Signal(0)))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestIgnoringSIGTERM(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.Faults.IgnoreSIGTERM = sandboxcli.Duration(time.Second) })
	r.create(t, "box")
	cmd := r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
	begun := time.Now()
	assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	assert.Assert(t, time.Since(begun) >= time.Second)

	assert.NilError(t, os.Remove(filepath.Join(r.ws, "ready")))
	cmd = r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; while ! test -e go; do sleep 0.02; done; exit 7")
	assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
	_ = cmd.Wait()
	assert.Equal(t, cmd.ProcessState.ExitCode(), 7, "it does its work in the meantime")
}
