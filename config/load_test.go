package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config/imageref"
	"github.com/docker-ralph/docker-ralph/egress"
)

// write puts a file into a new folder and returns the folder.
func write(t testing.TB, name, content string) string {
	t.Helper()
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	return dir
}

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func ptr[T any](v T) *T { return &v }

var defaultLoop = Loop{MaxFailures: 3, Idle: 30 * time.Minute, MaxWait: 6 * time.Hour, Grace: time.Minute, CheckTimeout: 10 * time.Minute}

func TestLoadDefaults(t *testing.T) {
	e, err := Load(Sources{Root: t.TempDir(), UserDir: filepath.Join(t.TempDir(), "missing"), Getenv: env(nil)})
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Config, Config{
		Agent: Agent{Name: "claude", Permissions: "bypass"},
		Image: Image{Network: BuildNetworkDefault},
		Sandbox: Sandbox{
			Enabled: true, Driver: "auto", Reuse: true, Workspace: WorkspaceAuto, GitToken: GitTokenNone, ReadOnly: true,
			Network:   Network{Policy: egress.Allowlist, Presets: []string{"agent", "git", "packages"}},
			Resources: Resources{Memory: 8 << 30, CPUs: 4, Pids: 1024, Tmp: DefaultTmp, Shm: DefaultShm, Timeout: time.Hour},
		},
		Loop: defaultLoop,
	})
	assert.Equal(t, len(e.Origins), len(settings())-len(agentSettings())-len(priceSettings()))
	for key, origin := range e.Origins {
		assert.Equal(t, origin.String(), "default", key)
	}
	assert.Equal(t, len(e.Privileged), 0)
	assert.Equal(t, e.PrivilegedDigest(), "")

	none, err := Load(Sources{})
	assert.NilError(t, err)
	assert.DeepEqual(t, none.Config, e.Config)
}

const everything = `
[agent]
name = "codex"
model = "gpt-5.2[1m]"
permissions = "ask"

[sandbox]
enabled = true
driver = "container"
image = "registry.example.com:5000/team/agent:v1"
reuse_container = false
workspace = "clone"
git_token = "read"
sign = true
read_only = false
runtime = "runsc"

[sandbox.network]
policy = "deny"
presets = ["agent", "npm"]
allowed = ["A.example", "*.b.example:8443", "A.example"]

[sandbox.resources]
memory = "1.5g"
cpus = "1.25"
pids = 0x100
timeout_minutes = 5
tmp = "2g"
shm = "1g"

[env]
pass = [
  "A", # the first
  "B_2",
  "A",
]

[image]
base = "debian:13"
network = "none"
`

func TestLoadFile(t *testing.T) {
	want := Config{
		Agent: Agent{Name: "codex", Model: "gpt-5.2[1m]", Permissions: "ask"},
		Sandbox: Sandbox{
			Enabled: true, Driver: "container", Image: "registry.example.com:5000/team/agent:v1", Workspace: WorkspaceClone, GitToken: GitTokenRead, Sign: true, Runtime: "runsc",
			Network:   Network{Policy: egress.Deny, Presets: []string{"agent", "npm"}, Allowed: []string{"A.example", "*.b.example:8443"}},
			Resources: Resources{Memory: 3 << 29, CPUs: 1.25, Pids: 256, Tmp: 2 << 30, Shm: 1 << 30, Timeout: 5 * time.Minute},
		},
		Env:   Env{Pass: []string{"A", "B_2"}},
		Image: Image{Base: "debian:13", Network: BuildNetworkNone},
		Loop:  defaultLoop,
	}
	for _, tc := range []struct{ name, content string }{
		{"plain", everything},
		{"with byte order mark", "\ufeff" + everything},
		{"with CRLF", strings.ReplaceAll(everything, "\n", "\r\n")},
		{"dotted and inline", `
			agent = { name = 'codex', model = "gpt-5.2[1m]", permissions = "ask" }
			env.pass = ["A", "B_2"]
			image."base" = """debian:13"""
			image.network = "none"
			sandbox.driver = "container"
			sandbox.image = "registry.example.com:5000/team/agent:v1"
			sandbox.reuse_container = false
			sandbox.workspace = "clone"
			sandbox.git_token = "read"
			sandbox.sign = true
			sandbox.read_only = false
			sandbox.runtime = "runsc"
			sandbox.network = { policy = "deny", presets = ["agent", "npm"], allowed = ["A.example", "*.b.example:8443"] }
			sandbox.resources = { memory = "1536m", cpus = 1.25, pids = 256, tmp = "2g", shm = "1g", timeout_minutes = 5 }`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := Load(Sources{Root: write(t, "ralph.toml", tc.content)})
			assert.NilError(t, err)
			assert.DeepEqual(t, e.Config, want)
			e, err = Load(Sources{UserDir: write(t, "config.toml", tc.content)})
			assert.NilError(t, err)
			assert.DeepEqual(t, e.Config, want)
		})
	}
}

func TestLoadOrigins(t *testing.T) {
	root, user := write(t, "ralph.toml", everything), write(t, "config.toml", "[sandbox]\ndriver = \"sbx\"\n[env]\npass=[\"U\"]\n")
	e, err := Load(Sources{
		Root: root, UserDir: user,
		Getenv:    env(map[string]string{"RALPH_IMAGE": "env-image", "RALPH_DOCKER_ENV": " E ,, A,", "RALPH_MODEL": ""}),
		Overrides: Overrides{Image: ptr("flag-image"), Timeout: ptr(90 * time.Second), Env: []string{"F"}},
	})
	assert.NilError(t, err)
	file := filepath.Join(root, "ralph.toml")
	for key, want := range map[string]string{
		"agent.name": file + ":3", "agent.model": file + ":4", "sandbox.resources.pids": file + ":26",
		"sandbox.driver": filepath.Join(user, "config.toml") + ":2", "sandbox.image": "--image",
		"sandbox.resources.timeout_minutes": "--timeout", "env.pass": "--env",
		"env.pass.A": "RALPH_DOCKER_ENV", "env.pass.B_2": file + ":34", "env.pass.E": "RALPH_DOCKER_ENV",
	} {
		assert.Equal(t, e.Origins[key].String(), want, key)
	}
	assert.Equal(t, e.Sandbox.Driver, "sbx")
	assert.Equal(t, e.Sandbox.Image, "flag-image")
	assert.Equal(t, e.Sandbox.Resources.Timeout, 90*time.Second)
	assert.DeepEqual(t, e.Env.Pass, []string{"A", "B_2", "U", "E", "F"})
}

func TestLoadPrecedence(t *testing.T) {
	root := write(t, "ralph.toml", "[agent]\nname = \"repo\"\n")
	user := write(t, "config.toml", "[agent]\nname = \"user\"\n")
	getenv := env(map[string]string{"RALPH_AGENT": "env"})
	for _, tc := range []struct {
		sources Sources
		want    string
	}{
		{Sources{}, "claude"},
		{Sources{Root: root}, "repo"},
		{Sources{Root: root, UserDir: user}, "user"},
		{Sources{Root: root, UserDir: user, Getenv: getenv}, "env"},
		{Sources{Root: root, UserDir: user, Getenv: getenv, Overrides: Overrides{Agent: ptr("flag")}}, "flag"},
	} {
		e, err := Load(tc.sources)
		assert.NilError(t, err)
		assert.Equal(t, e.Agent.Name, tc.want)
	}
}

func TestLoadImageVariableAlias(t *testing.T) {
	both := map[string]string{"DOCKER_SANDBOX_IMAGE": "node:22-alpine"}
	cfg, err := Load(Sources{Getenv: env(both)})
	assert.NilError(t, err)
	assert.Equal(t, cfg.Sandbox.Image, "node:22-alpine")
	assert.Equal(t, cfg.Origins[keyImage].Name, "DOCKER_SANDBOX_IMAGE")

	both["RALPH_IMAGE"] = "mine"
	cfg, err = Load(Sources{Getenv: env(both)})
	assert.NilError(t, err)
	assert.Equal(t, cfg.Sandbox.Image, "mine")

	_, err = Load(Sources{Images: imageref.Checker{}, Getenv: env(map[string]string{"DOCKER_SANDBOX_IMAGE": "No Image"})})
	assert.ErrorContains(t, err, `DOCKER_SANDBOX_IMAGE="No Image"`)
}

func TestLoadEnvironmentAndFlags(t *testing.T) {
	want := Config{
		Agent: Agent{Name: "shell", Model: "m", Permissions: "ask"},
		Sandbox: Sandbox{
			Enabled: true, Driver: "docker-sandbox", Image: "i", Reuse: true, Workspace: WorkspaceLive, GitToken: GitTokenWrite, Sign: true, ReadOnly: true,
			Network:   Network{Policy: egress.Allowlist, Presets: DefaultPresets()},
			Resources: Resources{Memory: 1 << 30, CPUs: 0.5, Pids: 1024, Tmp: 3 << 30, Shm: 128 << 20, Timeout: 2 * time.Minute},
		},
		Env:   Env{Pass: []string{"LD_PRELOAD", "B"}},
		Image: Image{Base: "b", Network: BuildNetworkNone},
		Loop:  defaultLoop,
	}
	e, err := Load(Sources{Getenv: env(map[string]string{
		"RALPH_AGENT": "shell", "RALPH_MODEL": "m", "RALPH_DRIVER": "docker-sandbox", "RALPH_IMAGE": "i", "RALPH_BASE": "b", "RALPH_IMAGE_NETWORK": "none",
		"RALPH_MEMORY": "1g", "RALPH_CPUS": "0.5", "RALPH_PIDS": "1024", "RALPH_TMP": "3g", "RALPH_SHM": "128m", "RALPH_TIMEOUT_MINUTES": "2", "RALPH_PERMISSIONS": "ask",
		"RALPH_WORKSPACE": "live", "RALPH_GIT_TOKEN": "write", "RALPH_SIGN": "true", "RALPH_DOCKER_ENV": "LD_PRELOAD, B",
	})})
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Config, want)

	e, err = Load(Sources{Getenv: env(map[string]string{"RALPH_PERMISSIONS": "ask", "RALPH_IMAGE_NETWORK": "none", "RALPH_TMP": "3g", "RALPH_SHM": "128m"}), Overrides: Overrides{
		Agent: ptr("shell"), Model: ptr("m"), Driver: ptr("docker-sandbox"), Image: ptr("i"), Base: ptr("b"),
		Memory: ptr("1g"), CPUs: ptr("0.5"), Timeout: ptr(2 * time.Minute), Env: []string{"LD_PRELOAD", "B"},
		Workspace: ptr("live"), GitToken: ptr("write"), Sign: ptr("true"),
	}})
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Config, want)
}

func TestLoadInvalidValues(t *testing.T) {
	for _, tc := range []struct {
		name    string
		env     map[string]string
		flags   Overrides
		message string
	}{
		{"driver", map[string]string{"RALPH_DRIVER": "podman"}, Overrides{}, `invalid RALPH_DRIVER="podman": use auto, sbx, docker-sandbox or container`},
		{"near driver", nil, Overrides{Driver: ptr("conainer")}, `--driver "conainer": did you mean "container"? (use auto, sbx, docker-sandbox or container)`},
		{"network", nil, Overrides{Network: ptr("foo")}, `invalid --network "foo": use allowlist, deny or allow-all`},
		{"allowed URL", nil, Overrides{Allow: []string{"https://x/y"}}, `invalid --allow "https://x/y": must be a host such as "x", not a URL`},
		{"endpoint path", map[string]string{"RALPH_ENDPOINT_PATHS": "/v1/files,v1"}, Overrides{}, `RALPH_ENDPOINT_PATHS="v1": must be an absolute path without a query, such as "/v1/embeddings"`},
		{"endpoint path that leads up", map[string]string{"RALPH_ENDPOINT_PATHS": "/v1/../key"}, Overrides{}, `must be an absolute path without a query, such as "/v1/embeddings"`},
		{"memory", map[string]string{"RALPH_MEMORY": "lots"}, Overrides{}, `RALPH_MEMORY="lots": must be a size such as 512m or 8g`},
		{"little memory", nil, Overrides{Memory: ptr("8")}, `--memory "8": must be between 6m and 1024t`},
		{"infinite memory", nil, Overrides{Memory: ptr("1e300g")}, `--memory "1e300g": must be between`},
		{"negative memory", nil, Overrides{Memory: ptr("-1g")}, `--memory "-1g": must be a size`},
		{"cpus", nil, Overrides{CPUs: ptr("0")}, `--cpus "0": must be a number between 0.01 and 10000`},
		{"cpus not a number", nil, Overrides{CPUs: ptr("NaN")}, `--cpus "NaN": must be a number`},
		{"pids", map[string]string{"RALPH_PIDS": "15"}, Overrides{}, `RALPH_PIDS="15": must be an integer between 16 and 4194304`},
		{"timeout", map[string]string{"RALPH_TIMEOUT_MINUTES": "0"}, Overrides{}, `RALPH_TIMEOUT_MINUTES="0": must be an integer between 1 and 527040`},
		{"timeout flag", nil, Overrides{Timeout: ptr(time.Millisecond)}, "--timeout 1ms: must be between 1s and a year"},
		{"sign", map[string]string{"RALPH_SIGN": "yes"}, Overrides{}, `RALPH_SIGN="yes": must be true or false`},
		{"permissions", map[string]string{"RALPH_PERMISSIONS": "Ask"}, Overrides{}, `RALPH_PERMISSIONS="Ask": did you mean "ask"?`},
		{"agent", nil, Overrides{Agent: ptr("../x")}, `invalid --agent "../x": use lower-case letters`},
		{"no agent", nil, Overrides{Agent: ptr("")}, `--agent "": use lower-case letters`},
		{"model as option", nil, Overrides{Model: ptr("--danger")}, `--model "--danger": must not start with a dash`},
		{"model with blank", nil, Overrides{Model: ptr("a b")}, `--model "a b": must not contain whitespace`},
		{"image", nil, Overrides{Image: ptr("UPPER")}, `--image "UPPER": invalid image reference`},
		{"base", nil, Overrides{Base: ptr("a b")}, `--base "a b": invalid image reference`},
		{"env with value", nil, Overrides{Env: []string{"TOKEN=x"}}, `--env "TOKEN=x": must be a name without a value`},
		{"env name", map[string]string{"RALPH_DOCKER_ENV": "A,1B"}, Overrides{}, `RALPH_DOCKER_ENV="1B": invalid variable name`},
		{"own variable", nil, Overrides{Env: []string{GuestEnv}}, "reserved for docker ralph"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Sources{Images: imageref.Checker{}, Getenv: env(tc.env), Overrides: tc.flags})
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

func TestLoadImageByID(t *testing.T) {
	id := "sha256:" + strings.Repeat("ab", 32)
	e, err := Load(Sources{Images: imageref.Checker{}, Overrides: Overrides{Image: ptr(id)}})
	assert.NilError(t, err)
	assert.Equal(t, e.Sandbox.Image, id)
	_, err = Load(Sources{Images: imageref.Checker{}, Overrides: Overrides{Base: ptr(strings.Repeat("ab", 32))}})
	assert.ErrorContains(t, err, "invalid image reference")
}

func TestLoadDisabled(t *testing.T) {
	root := write(t, "ralph.toml", "sandbox.enabled = false\n")
	_, err := Load(Sources{Root: root})
	var mistake *FileError
	assert.Assert(t, errors.As(err, &mistake))
	assert.Equal(t, mistake.Line, 1)
	assert.Equal(t, mistake.Column, 19)
	assert.ErrorContains(t, err, "docker ralph cannot run without a sandbox")

	e, err := Load(Sources{Root: root, OnHost: true})
	assert.NilError(t, err)
	assert.Assert(t, !e.Sandbox.Enabled)

	_, err = Load(Sources{UserDir: write(t, "config.toml", "[sandbox]\nenabled = false")})
	assert.ErrorContains(t, err, "config.toml:2:11: sandbox.enabled")

	_, err = Load(Sources{Root: root, UserDir: write(t, "config.toml", "[sandbox]\nenabled = true")})
	assert.NilError(t, err)
}

func TestGuest(t *testing.T) {
	e, err := Load(Sources{Overrides: Overrides{Agent: ptr("shell"), Model: ptr("m")}})
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Guest(true), Guest{Agent: "shell", Model: "m", Permissions: "bypass", Sandboxed: true, TimeoutSeconds: 3600, Loop: defaultLoop})
	assert.Equal(t, e.Guest(false).Sandboxed, false)
	assert.Equal(t, e.Sandbox.Resources.NanoCPUs(), int64(4e9))
}
