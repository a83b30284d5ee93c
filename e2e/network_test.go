//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
)

// Network policies: what a sandbox reaches, and what is reported as blocked.

// reachStep is a step that writes git's message about a host: the proxy's answer.
func reachStep(host, file string) string {
	return "git ls-remote https://" + host + "/x >" + file + " 2>&1; true"
}

const (
	refusedByProxy = "response 403"
	hostNotFound   = "response 502" // it was allowed, and the name does not exist
)

func TestNetworkPolicy(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		w.plan(t, task{ID: "a", Title: "Try", Steps: []string{
			"env | grep -ci ^https_proxy= >proxies; getent hosts name.invalid >names; touch /usr/mine 2>root; true",
			reachStep("far.invalid", "far"), reachStep("github.invalid", "twice"), reachStep("github.invalid", "twice"),
		}})
		res := w.ralph(t, "build").expect(t, 0)
		assert.Check(t, is.Contains(w.read(t, "far"), refusedByProxy))
		assert.Check(t, is.Contains(w.read(t, "root"), "Read-only file system"))
		assert.Equal(t, w.read(t, "proxies"), "2\n")
		assert.Equal(t, w.read(t, "names"), "")
		assert.Check(t, is.Contains(res.stderr, "blocked: far.invalid:443 ×1, allow with: docker ralph network allow far.invalid\n"))
		assert.Check(t, is.Contains(res.stderr, "blocked: github.invalid:443 ×2, "))

		var last egress.Decision
		for line := range strings.Lines(w.ok(t, "network", "log", "--format", "json")) {
			assert.NilError(t, json.Unmarshal([]byte(line), &last))
		}
		assert.Equal(t, last.Host, "github.invalid")
		assert.Check(t, is.Contains(w.ok(t, "network", "log"), "refused  far.invalid:443  not in allowlist"))

		// A change applies at once, needs no new sandbox, and outlives this one.
		id := w.container(t).ID
		w.ok(t, "network", "allow", "far.invalid")
		w.plan(t, task{ID: "b", Title: "Try again", Steps: []string{reachStep("far.invalid", "far"), reachStep("github.invalid", "twice")}})
		w.ok(t, "build")
		assert.Equal(t, w.container(t).ID, id)
		assert.Check(t, is.Contains(w.read(t, "far"), hostNotFound))
		assert.Check(t, is.Contains(w.read(t, "twice"), refusedByProxy))
		w.ok(t, "network", "deny", "*.gitlab.com", "far.invalid")
		w.createSandbox(t, "--recreate")
		w.plan(t, task{ID: "c", Title: "Try in a new one", Steps: []string{reachStep("far.invalid", "far")}})
		w.ok(t, "build")
		assert.Check(t, is.Contains(w.read(t, "far"), refusedByProxy))

		// Rules that are set while the sandbox is stopped, and its proxy is not, apply too.
		for _, tc := range []struct{ say, want string }{{"allow", hostNotFound}, {"deny", refusedByProxy}} {
			w.stop(t, w.sandbox(t))
			said := w.ralph(t, "network", tc.say, "far.invalid").expect(t, 0).stderr
			assert.Check(t, is.Contains(said, map[string]string{"allow": "Allowed", "deny": "Blocked"}[tc.say]+" for "+w.sandbox(t).Name+": far.invalid\n"))
			assert.Check(t, is.Contains(w.ok(t, "network", "log", "--all"), "far.invalid"), "the log stays")
			w.plan(t, task{ID: tc.say, Title: "Try after a stop", Steps: []string{reachStep("far.invalid", "far")}})
			w.ok(t, "build")
			assert.Check(t, is.Contains(w.read(t, "far"), tc.want), tc.say)
		}

		var list network.List
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "network", "ls", "--format", "json")), &list))
		assert.Equal(t, list.Policy, egress.Allowlist)
		found := map[string]network.Rule{}
		for _, rule := range list.Rules {
			found[rule.Host] = rule
		}
		assert.Equal(t, found["far.invalid"].Decision, egress.Refused)
		assert.Equal(t, found["far.invalid"].Origin, "docker ralph network")
		assert.Equal(t, found["github.com"].Origin, "preset git")
		assert.Check(t, is.Contains(w.ok(t, "network", "ls"), "github.com "))

		// The rule is set for the branch, not for the sandbox.
		w.stop(t, w.sandbox(t))
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.ok(t, "network", "allow", "far.invalid")
		w.plan(t, task{ID: "d", Title: "Try in one of its own", Steps: []string{reachStep("far.invalid", "far")}})
		w.ok(t, "build")
		assert.Check(t, is.Contains(w.read(t, "far"), hostNotFound))
	})
}

// The proxy and the network are removed with the sandbox.
func TestProxyAndNetworkAreRemovedWithTheSandbox(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		w.setenv("RALPH_NETWORK", "deny")
		w.createSandbox(t)
		for _, kind := range []string{"container", "network"} {
			left := run(t, w.docker(kind, "ls", "-q", "--filter", "label="+labelPrefix+"created-by=docker-ralph",
				"--filter", "name="+strings.ReplaceAll(w.slug, "/", "-"))).expect(t, 0).stdout
			assert.Equal(t, left, "", kind)
		}
	})
}

// Nothing is run in a sandbox whose proxy cannot be started, not even by the next
// command.
func TestSandboxWithUnverifiedIsolationIsNotUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		hinder := &atomic.Bool{}
		w.refusing(t, func(r *http.Request) (int, string) {
			post := hinder.Load() && r.Method == http.MethodPost
			if post && strings.HasSuffix(r.URL.Path, "/attach") { // the policy of the proxy
				return http.StatusInternalServerError, "hindered"
			}
			return 0, ""
		})
		w.plan(t, task{ID: "a", Title: "Begin", Steps: []string{"touch begun"}})
		hinder.Store(true)
		for _, args := range [][]string{{"--recreate", "build"}, {"build"}} {
			res := w.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "Error: starting the proxy of "))
			_, err := os.Stat(w.pathInside(t, "begun"))
			assert.Check(t, os.IsNotExist(err), "an agent was started")
		}
		hinder.Store(false)
		w.ok(t, "build")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
	})
}

// Branches whose sandboxes have the same base name have separate rules.
func TestNetworkPolicyOfBranchesWithSimilarNames(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		w.git(t, "checkout", "-q", "-b", "feature-auth")
		w.createSandbox(t)
		w.git(t, "checkout", "-q", "-b", "feature/auth")
		w.ok(t, "network", "allow", "other.example")
		assert.Check(t, is.Contains(w.ok(t, "network", "ls"), "other.example"))
		w.git(t, "checkout", "-q", "feature-auth")
		assert.Check(t, !strings.Contains(w.ok(t, "network", "ls"), "other.example"))
	})
}

func TestOpenNetworkPolicyInRalphTomlNeedsApproval(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		w.useDefaults()
		w.createSandbox(t)
		assert.Check(t, is.Contains(w.ok(t, "network", "ls"), "Policy: allowlist"))
		w.ralph(t, "--network", "open", "shell", "--", "true").expect(t, 125)
		w.ralph(t, "--allow", "https://a.example/", "shell", "--", "true").expect(t, 125)

		// The repository may close, and asks before it opens.
		w.configure(t, "[sandbox.network]\npolicy = \"allow-all\"\n")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `sandbox.network.policy = "allow-all" (`))
		w.write(t, filepath.Join(w.repo, "ralph.toml"), "[sandbox.network]\npolicy = \"deny\"\n")
		listed := w.ralph(t, "network", "ls").expect(t, 0)
		assert.Check(t, is.Contains(listed.stdout, "Policy: allowlist"))
		assert.Check(t, is.Contains(listed.stderr, `Warning: the configuration has the policy "deny", which needs --recreate; listing the rules in force`))
		w.createSandbox(t, "--recreate")
		assert.Check(t, is.Contains(w.ok(t, "network", "ls"), "Policy: deny"))
	})
}

// A prompt lists the hosts that were blocked in the run before, in a wording that the
// repository may choose.
func TestBlockedHostsAreInTheNextPrompt(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.ignore(t, "prompt*")
		w.configureUser(t, "[agents.mine]\ncommand = [\"sh\", \"try.sh\", \"{prompt_file}\"]\n")
		w.write(t, filepath.Join(w.repo, "try.sh"), `n=$(ls | grep -c ^prompt); cp "$1" "prompt$n"
case $n in
0) `+reachStep("far.invalid", "far")+`; `+reachStep("far.invalid", "far")+`; `+reachStep("soon.invalid:8443", "far")+`;;
2) `+reachStep("far.invalid", "far")+`;;
esac`)
		w.setenv("RALPH_NETWORK", "allowlist")
		flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
		w.ok(t, append(flags, "task", "create", "a", "Try")...)
		build := func(n string) string { return w.ok(t, append(flags, "build", "-n", n)...) }
		out := build("2")
		assert.Check(t, is.Contains(out, " | blocked: far.invalid:443 ×2, soon.invalid:8443 ×1\n"))
		assert.Equal(t, strings.Count(out, "blocked"), 1)
		assert.Check(t, !strings.Contains(w.read(t, "prompt0"), "invalid"))
		told := w.read(t, "prompt1")
		for _, want := range []string{
			"## From the session before\n", "- `far.invalid:443`, 2 times\n- `soon.invalid:8443`, 1 time\n", "only the user", "Do not try these again",
		} {
			assert.Check(t, is.Contains(told, want))
		}
		w.write(t, filepath.Join(w.repo, ".ralph", "prompts", "refused.md"), "Out of bounds: {refused}\n")
		w.chown(t, filepath.Join(w.repo, ".ralph"))
		build("2")
		assert.Check(t, !strings.Contains(w.read(t, "prompt2"), "invalid"), "that was another loop")
		assert.Check(t, is.Contains(w.read(t, "prompt3"), "\nOut of bounds: - `far.invalid:443`, 1 time\n"))

		// Without a proxy, nothing is blocked.
		w.setenv("RALPH_NETWORK", "")
		w.ok(t, append(flags, "--recreate", "build", "-n", "1")...)
		assert.Check(t, !strings.Contains(w.read(t, "prompt4"), "invalid"))
	})
}

// The task of a run that failed at a blocked host waits for the user, and succeeds once the
// host is allowed.
func TestTaskWaitsForTheDecisionAboutABlockedHost(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[agents.mine]\ncommand = [\"sh\", \"try.sh\", \"{prompt_file}\"]\n")
		w.write(t, filepath.Join(w.repo, "try.sh"), "ralph task claim a; "+reachStep("far.invalid", "far")+"; grep -q 'Answer: allowed' \"$1\" && ralph task done a || exit 3\n")
		flags := []string{"--agent", "mine", "--image", engines.BaseImage(), "--network", "allowlist"}
		w.ok(t, append(flags, "task", "create", "a", "Try")...)
		res := w.ralph(t, append(flags, "build")...).expect(t, 12)
		assert.Check(t, is.Contains(res.stdout, "Total: 1 run, "))
		assert.Check(t, is.Contains(w.ok(t, "questions"), "  Allow connections to far.invalid? They were blocked before the run failed. "+
			`To allow them, run "docker ralph network allow far.invalid", then answer.`))
		w.ok(t, "network", "allow", "far.invalid")
		w.ok(t, "answer", "a", "allowed")
		w.ok(t, append(flags, "build")...)
	})
}

// A partially created sandbox is removed, and the logs of its containers are saved.
func TestProxyThatDoesNotStartIsReportedWithItsLog(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("HTTPS_PROXY", "socks5://192.0.2.1:1080")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		const said = `Error: the host's proxy is of the kind "socks5"`
		assert.Check(t, is.Contains(res.stderr, ".egress ended with exit code 1. The last lines of its log:\n  20"))
		assert.Check(t, is.Contains(res.stderr, "Z "+said))
		assert.Check(t, is.Contains(w.savedLog(t, res.stderr), said))
	})
}

// A proxy keeps running while its sandbox is stopped, unless the host's proxy changes.
func TestChangedHostProxyIsUsedAfterAStop(t *testing.T) {
	// Not beside tests that give an engine a network with public addresses: its proxies
	// are recreated for that, too.
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		w := newWorld(t, e)
		w.setenv("RALPH_NETWORK", "allowlist")
		w.ok(t, "shell", "--", "true")
		proxy := w.sandbox(t).Name + ".egress"
		since := func() string {
			return run(t, w.docker("inspect", "--format", "{{.Created}} {{.State.StartedAt}}", proxy)).expect(t, 0).stdout
		}
		made := since()
		w.ok(t, "stop")
		w.ok(t, "shell", "--", "true")
		assert.Equal(t, since(), made, "nothing has changed")

		w.setenv("HTTPS_PROXY", "http://192.0.2.1:1080")
		w.ok(t, "shell", "--", "true")
		assert.Equal(t, since(), made, "a sandbox that runs keeps its proxy")
		w.ok(t, "stop")
		w.ok(t, "shell", "--", "true")
		changed := since()
		assert.Assert(t, changed != made)
		w.ok(t, "stop")
		w.setenv("HTTPS_PROXY", "socks5://192.0.2.1:1080")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `the host's proxy is of the kind "socks5"`))
		w.setenv("HTTPS_PROXY", "")
		w.ok(t, "shell", "--", "true")
	})
}

// Hosts that are allowed on the command line are allowed for that command, in the sandbox that
// exists.
func TestChangedNetworkRulesApplyToTheSandbox(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.useDefaults()
		w.createSandbox(t)
		w.ok(t, "network", "allow", "later.invalid")
		sb := w.sandbox(t)
		reach := func(host, want string, flags ...string) string {
			t.Helper()
			res := w.ralph(t, append(flags, "shell", "--", "sh", "-c", reachStep(host, "reached"))...).expect(t, 0)
			assert.Check(t, is.Contains(w.readFile(t, w.pathInside(t, "reached")), want), host)
			return res.stderr
		}
		said := reach("more.invalid", hostNotFound, "--allow", "more.invalid")
		assert.Check(t, is.Contains(said, "Changed sandbox "+sb.Name+": network rule allow more.invalid from off to on\n"))
		assert.Check(t, !strings.Contains(reach("later.invalid", hostNotFound, "--allow", "more.invalid"), "Changed"))
		said = reach("more.invalid", refusedByProxy)
		assert.Check(t, is.Contains(said, "Changed sandbox "+sb.Name+": network rule allow more.invalid from on to off\n"))
		reach("later.invalid", hostNotFound)
		assert.Equal(t, w.sandbox(t).ID, sb.ID)

		res := w.ralph(t, "--network", "deny", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: sandbox "+sb.Name+" no longer matches the configuration (network policy from allowlist to deny)\nHint: recreate it with --recreate"))
	})
}
