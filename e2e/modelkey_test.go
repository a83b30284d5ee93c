//go:build unix

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// The keys of model APIs stay outside the sandbox, also with endpoints that the
// user chooses and with the real agents.

// printKeys is a command of the agent that writes down all that it can see of
// environments and command lines, its own and others'.
const printKeys = `env >seen; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' >>seen; true`

// With a network policy, the real Claude Code works without its key: that stays
// with the proxy. Each command hands its own key over, also to a sandbox that
// runs already.
func TestClaudeWorksWithoutItsKey(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		look := func(id, file string) []modelapi.Turn {
			return append([]modelapi.Turn{modelapi.Bash(printKeys + "; mv seen .ralph/seen")}, w.buildTurns(id, file)...)
		}
		api, url := w.serveModel(t, [][]modelapi.Turn{look("shop/01", "one"), look("shop/02", "two"), look("shop/03", "three")})
		w.setenv("ANTHROPIC_BASE_URL", url)
		flags := []string{"--agent", "claude", "--base", base}
		secret := "kept-outside-of-" + w.engine.Name
		keys := []struct{ variable, secret string }{
			{"ANTHROPIC_API_KEY", "sk-ant-1-" + secret}, {"ANTHROPIC_API_KEY", "sk-ant-2-" + secret}, {"CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat-" + secret},
		}
		argvs := watchArgv(t, secret, agentArgv)
		for _, id := range []string{"shop/01", "shop/02", "shop/03"} {
			w.ok(t, append(flags, "task", "create", id, "Add it")...)
		}
		w.createSandbox(t, flags...)
		sandbox := w.container(t)
		plain := w.env
		for i, key := range keys {
			if i == 2 { // which takes the keys from the proxy
				run(t, w.docker("restart", "-t", "0", strings.TrimPrefix(sandbox.Name, "/")+".egress")).expect(t, 0)
			}
			w.env = append(plain[:len(plain):len(plain)], key.variable+"="+key.secret)
			asked := len(api.Requests())
			res := w.ralph(t, append(flags, "build", "-n", "1")...).expect(t, 0)
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, secret))
			assert.Check(t, !strings.Contains(res.stderr, "Warning"), res.stderr)
			assert.Check(t, !strings.Contains(res.stderr, "blocked"), res.stderr)
			assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), string(rune('2'+i)))
			assert.Assert(t, len(api.Requests()) > asked)
			for _, r := range api.Requests()[asked:] {
				assert.Equal(t, r.Key, key.secret)
				for _, tool := range r.Results() {
					assert.Check(t, !tool.IsError, tool.Text)
				}
			}
			seen := run(t, w.docker("exec", "-u", w.insideUser(), sandbox.ID, "cat", filepath.Join(w.repo, ".ralph", "seen"))).expect(t, 0).stdout
			assert.Check(t, is.Contains(seen, key.variable+"=proxy-managed\n"))
			assert.Check(t, is.Contains(seen, ":3129/anthropic\n"))
			assert.Check(t, is.Contains(seen, "claude\n"), "it sees itself")
			assert.Check(t, !strings.Contains(seen, secret))
		}
		assert.Equal(t, w.container(t).ID, sandbox.ID, "it is the same sandbox")
		assert.DeepEqual(t, argvs(), map[string]bool{secret: false, agentArgv: true})
		w.assertNowhere(t, secret)
	})
}

// realProgram is the path of a real agent's own program.
func realProgram(t *testing.T, pattern string) string {
	t.Helper()
	programs := os.Getenv("RALPH_TEST_AGENTS")
	if programs == "" {
		skipOrFail(t, "RALPH_TEST_AGENTS names no folder with the real agents; \"make test\" sets it")
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(programs), "node_modules", pattern))
	assert.NilError(t, err)
	assert.Equal(t, len(found), 1, pattern)
	return found[0]
}

// The real codex works without its key where nothing but its model is reached.
func TestCodexWorksWithoutItsKey(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		program := filepath.Join(w.repo, ".ralph", "codex") // the sandbox sees it, and no commit has it
		image := w.imageWith(t, "/usr/local/bin/codex", "#!/bin/sh\nexec '"+program+"' \"$@\"\n")
		model := &modelapi.Vendor{Say: "All done.", Commands: []string{
			"ralph task claim a", printKeys + "; mv seen .ralph/seen; echo one >one; git add one; git commit -qm 'Add one'",
			`ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}"`,
		}}
		secret := "kept-outside-by-codex-of-" + w.engine.Name
		w.setenv("OPENAI_API_KEY", "sk-"+secret)
		w.setenv("OPENAI_BASE_URL", w.serve(t, model)+"/v1")
		w.setenv("RALPH_NETWORK", "deny")
		argvs := watchArgv(t, secret, program)
		flags := []string{"--agent", "codex", "--image", image}
		w.ok(t, append(flags, "task", "create", "a", "Add one")...)
		w.createSandbox(t, flags...)
		assert.NilError(t, copyProgram(realProgram(t, "@openai/codex-linux-*/vendor/*/bin/codex"), w.pathInside(t, ".ralph/codex")))
		res := w.ralph(t, append(flags, "build", "-n", "1", "-m", "gpt-test")...).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one", res.stdout+res.stderr)
		assert.Check(t, !strings.Contains(res.stderr, "Warning"), res.stderr)
		assert.Assert(t, model.Requests() > 3)
		for _, key := range model.Keys() {
			assert.Equal(t, key, "sk-"+secret)
		}
		seen := run(t, w.docker("exec", "-u", w.insideUser(), w.container(t).ID, "cat", filepath.Join(w.repo, ".ralph", "seen"))).expect(t, 0).stdout
		assert.Check(t, is.Contains(seen, "OPENAI_API_KEY=proxy-managed\n"))
		assert.Check(t, !strings.Contains(seen, secret))
		assert.DeepEqual(t, argvs(), map[string]bool{secret: false, program: true})
		w.assertNowhere(t, secret)
	})
}

// The real codex, with a provider for which it prefers WebSockets, uses HTTP after one
// attempt, so that tokens are counted.
func TestCodexFallsBackToHTTP(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		const program = ".ralph/codex" // the sandbox sees it, and no commit has it
		model := &modelapi.Vendor{Say: "All done.", Commands: []string{
			"ralph task claim a", "echo one >one; git add one; git commit -qm 'Add one'",
			`ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}"`,
		}}
		w.setenv("OPENAI_API_KEY", "sk-codex-e2e")
		w.setenv("OPENAI_BASE_URL", w.serve(t, model)+"/v1")
		w.setenv("RALPH_NETWORK", "deny")
		w.configure(t, `[agents.mine]
keys = "openai"
stream = "codex"
command = ["sh", "-c", '''`+program+` exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m gpt-test \
	-c allow_login_shell=false -c 'model_provider="ws"' \
	-c "model_providers.ws={name=\"ws\", base_url=\"$OPENAI_BASE_URL\", env_key=\"OPENAI_API_KEY\", wire_api=\"responses\", supports_websockets=true}" - 2>.ralph/said''']
`)
		flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
		w.ok(t, append(flags, "task", "create", "a", "Add one")...)
		w.createSandbox(t, flags...)
		assert.NilError(t, copyProgram(realProgram(t, "@openai/codex-linux-*/vendor/*/bin/codex"), w.pathInside(t, program)))
		res := w.ralph(t, append(flags, "build", "-n", "1")...).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one", res.stdout+res.stderr)

		said, err := os.ReadFile(w.pathInside(t, ".ralph/said"))
		assert.NilError(t, err)
		assert.Equal(t, strings.Count(string(said), "failed to connect to Responses WebSocket"), 1, string(said))
		assert.Check(t, !strings.Contains(res.stdout, "Reconnecting"), res.stdout)
		for _, other := range model.Others() {
			assert.Check(t, !strings.HasSuffix(other, "/responses"), "the WebSocket reached the endpoint")
		}
	})
}

// The real opencode uses the proxy, without a key. It runs on this machine: in a
// sandbox it tries its own hosts for most of a minute first.
func TestOpencodeUsesTheProxy(t *testing.T) {
	t.Parallel()
	onlyInMatrix(t)
	model := &modelapi.Vendor{Say: "All done.", Commands: []string{"echo one >one"}}
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	set := map[string]string{"OPENAI_API_KEY": "sk-opencode-e2e", "OPENROUTER_API_KEY": "sk-opencode-e2e"}
	routed, err := credential.Router{LookupEnv: func(name string) (string, bool) { v, ok := set[name]; return v, ok }}.Route(t.Context(), "opencode", nil)
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, name := range []string{"openai/gpt-4o", "openrouter/openai/gpt-4o"} {
		home, work := t.TempDir(), t.TempDir()
		cmd := exec.CommandContext(ctx, realProgram(t, "opencode-linux-*/bin/opencode"), "run", "--format", "json", "--auto", "--model", name, "Make a file.")
		cmd.Dir = work
		cmd.Env = append(routed.Environment(server.URL), "PATH="+os.Getenv("PATH"), "HOME="+home, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, string(out))
		made, err := os.ReadFile(filepath.Join(work, "one"))
		assert.NilError(t, err, string(out))
		assert.Equal(t, string(made), "one\n")
	}
	assert.Assert(t, model.Requests() >= 4)
	for _, key := range model.Keys() {
		assert.Equal(t, key, credential.Sentinel)
	}
}

// assertNowhere looks for a secret wherever a sandbox and its proxy leave something.
func (w *world) assertNowhere(t *testing.T, secret string) {
	t.Helper()
	sandbox := w.container(t)
	name := strings.TrimPrefix(sandbox.Name, "/")
	for _, args := range [][]string{
		{"inspect", name, name + ".egress"}, {"logs", name}, {"logs", name + ".egress"}, {"network", "inspect", "ralph-egress"},
	} {
		res := run(t, w.docker(args...)).expect(t, 0)
		assert.Check(t, !strings.Contains(res.stdout+res.stderr, secret), "%q", args)
	}
	holding := run(t, w.docker("exec", sandbox.ID, "sh", "-c", "grep -rlsF '"+secret+"' /home /tmp /run /etc; true")).expect(t, 0)
	assert.Equal(t, holding.stdout, "", "files in the sandbox hold it")
	for _, dir := range []string{w.repo, w.home, filepath.Join(w.config, "ralph")} {
		assert.NilError(t, noFileHolds(dir, secret))
	}
}

// gateway is an endpoint of the user's own. It writes down which paths were asked
// for with which key.
type gateway struct {
	mu       sync.Mutex
	requests []string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("X-Api-Key") == "sk-revoked" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	g.requests = append(g.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Api-Key"))
}

func (g *gateway) takeRequests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.requests
	g.requests = nil
	return asked
}

// requestEndpoint posts to paths of the agent's endpoint, and prints the status of each.
const requestEndpoint = `for path; do perl -MHTTP::Tiny -e 'print HTTP::Tiny->new(timeout => 20)->post("$ENV{ANTHROPIC_BASE_URL}$ARGV[0]", {content => "x"})->{status}, "\n"' "$path"; done`

// An endpoint at a private address that is passed by name is the same as one that is
// only set: the key stays outside, and is used for the agent's paths alone.
func TestEndpointPassedByNameKeepsTheKeyOutside(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		own := &gateway{}
		w.setenv("ANTHROPIC_BASE_URL", w.serve(t, own)+"/claude")
		w.setenv("ANTHROPIC_API_KEY", "sk-own")
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", engines.BaseImage())
		command := []string{"shell", "--", "sh", "-c", requestEndpoint + `; env | grep -c sk-own`, "sh", "/v1/messages", "/key/generate"}

		for _, named := range []string{"", "ANTHROPIC_BASE_URL"} {
			w.setenv("RALPH_DOCKER_ENV", named)
			res := w.ralph(t, command...)
			assert.Equal(t, res.stdout, "200\n403\n0\n", res.stderr)
			assert.DeepEqual(t, own.takeRequests(), []string{"POST /claude/v1/messages sk-own"})
		}

		w.setenv("RALPH_ENDPOINT_PATHS", "/key")
		assert.Equal(t, w.ralph(t, command...).stdout, "200\n200\n0\n")
		assert.DeepEqual(t, own.takeRequests(), []string{"POST /claude/v1/messages sk-own", "POST /claude/key/generate sk-own"})

		w.setenv("RALPH_NETWORK", "allow-all")
		res := w.ralph(t, append([]string{"--recreate"}, command...)...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: ANTHROPIC_BASE_URL names an address that the network policy "allow-all" blocks`))
		assert.Check(t, strings.Contains(res.stderr, "Hint: use --network allowlist"), res.stderr)
		assert.Equal(t, len(own.takeRequests()), 0)
	})
}

// A key is used for its own command only. Later commands that have none, or an empty
// one, do not use the earlier key.
func TestEarlierKeyIsNotUsed(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		own := &gateway{}
		url := w.serve(t, own)
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", engines.BaseImage())
		set := func(key, endpoint string) {
			w.setenv("ANTHROPIC_API_KEY", key)
			w.setenv("ANTHROPIC_BASE_URL", endpoint)
		}
		set("sk-own", url)
		base := strings.TrimSpace(w.ok(t, "shell", "--", "sh", "-c", `echo "$ANTHROPIC_BASE_URL"; exec >/dev/null; `+requestEndpoint, "sh", "/v1/messages"))
		assert.DeepEqual(t, own.takeRequests(), []string{"POST /v1/messages sk-own"})

		set("", url) // an endpoint of the user's own may need none
		w.ok(t, "shell", "--", "sh", "-c", requestEndpoint, "sh", "/v1/messages")
		assert.DeepEqual(t, own.takeRequests(), []string{"POST /v1/messages "})

		set("sk-own", url)
		w.ok(t, "shell", "--", "true")
		set("", "")
		w.ok(t, "shell", "--", "sh", "-c", "export ANTHROPIC_BASE_URL="+base+"; "+requestEndpoint, "sh", "/v1/messages")
		assert.Equal(t, len(own.takeRequests()), 0)
	})
}

// A missing key is reported before the first run, a rejected one and an unreachable
// endpoint while the agent retries, each with the variable.
func TestModelFailuresAreReportedAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		own := &gateway{}
		url := w.serve(t, own)
		// Like agents it retries for long without printing an error.
		image := w.imageWith(t, "/usr/local/bin/claude", "#!/bin/sh\nset -- /v1/messages\n"+requestEndpoint+" >/dev/null\nwhile ! test -e .ralph/go; do sleep 0.05; done\nexit 1\n")
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_AGENT", "claude")
		w.setenv("RALPH_IMAGE", image)
		w.ok(t, "task", "create", "a", "Add it")
		for _, tc := range []struct{ key, endpoint, want string }{
			{"", "", "Warning: claude has no key: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN is not set\nHint: "},
			{"sk-revoked", url, " rejected the key in ANTHROPIC_API_KEY: it answered 401 Unauthorized\nHint: check ANTHROPIC_API_KEY\n"},
			{"sk-own", "http://" + w.engine.Gateway + ":9", " connection refused\nHint: check ANTHROPIC_BASE_URL\n"},
		} {
			assert.NilError(t, os.RemoveAll(filepath.Join(w.repo, ".ralph", "go")))
			w.setenv("ANTHROPIC_API_KEY", tc.key)
			w.setenv("ANTHROPIC_BASE_URL", tc.endpoint)
			build := start(t, w.docker("ralph", "build", "-n", "1"))
			eventually(t, func() error {
				if said := build.stderr.String(); !strings.Contains(said, tc.want) {
					return fmt.Errorf("%q is not in %q", tc.want, said)
				}
				return nil
			})
			w.write(t, w.pathInside(t, ".ralph/go"), "")
			said := build.wait(t).stderr
			assert.Equal(t, strings.Count(said, tc.want), 1, said)
		}
	})
}
