//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// hangs is a step that an agent begins and does not end.
const hangs = "touch .ralph/begun; sleep 1000"

// hanging starts an agent that works for ever.
func (w *world) hanging(t *testing.T, step string) *process {
	t.Helper()
	w.plan(t, task{ID: "a", Title: "Hang", Steps: []string{step}})
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	appears(t, filepath.Join(w.repo, ".ralph", "begun"))
	assert.NilError(t, os.Remove(filepath.Join(w.repo, ".ralph", "begun")))
	return build
}

// logs are the names and contents of the logs that are kept.
func (w *world) logs(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(w.config, "ralph", "logs")
	entries, err := os.ReadDir(dir)
	assert.Assert(t, err == nil || os.IsNotExist(err), err)
	found := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		assert.NilError(t, err)
		found[filepath.Join(dir, e.Name())] = string(content)
	}
	return found
}

// keptLog is the log that a message names.
func (w *world) keptLog(t *testing.T, stderr string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^All of it is in (.*)$`).FindStringSubmatch(stderr)
	assert.Assert(t, m != nil, stderr)
	content, ok := w.logs(t)[m[1]]
	assert.Assert(t, ok, m[1])
	return content
}

// A sandbox that ends under an agent says how, comes back, and what its first
// process has said is kept.
func TestASandboxThatEndsUnderAnAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.hanging(t, hangs)
		name := w.sandbox(t).Name
		run(t, w.docker("kill", name)).expect(t, 0)
		res := build.wait(t).expect(t, 6) // the run that was lost counts
		assert.Check(t, is.Contains(res.stderr, "Warning: the sandbox "+name+" was killed: repairing it, and going on with the loop\n"))
		assert.Check(t, is.Contains(res.stderr, "Error: the last run did not end: the sandbox "+name+" was killed\n"))
		assert.Check(t, w.container(t).State.Running)
		assert.Equal(t, len(w.logs(t)), 0)

		build = w.hanging(t, hangs)
		run(t, w.docker("kill", "-s", "TERM", name)).expect(t, 0)
		res = build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: the sandbox "+name+" has ended (it was stopped). The last lines of its log:\n  20"))
		assert.Check(t, is.Contains(res.stderr, "Z The sandbox was told to stop: terminated\n"))
		log := w.keptLog(t, res.stderr)
		assert.Check(t, strings.HasSuffix(log, "Z The sandbox was told to stop: terminated\n"), log)

		build = w.hanging(t, hangs)
		run(t, w.docker("rm", "-f", name)).expect(t, 0)
		res = build.wait(t).expect(t, 6)
		assert.Check(t, is.Regexp("Warning: the sandbox "+name+" was (killed|removed): repairing it, and going on with the loop\n", res.stderr))
		assert.Check(t, is.Regexp("Error: the last run did not end: the sandbox "+name+" was (killed|removed)\n", res.stderr))
		assert.Check(t, w.container(t).State.Running)

		// An agent that fails is none of that.
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Fail", Steps: []string{"exit 9"}})
		res = w.ralph(t, "build", "-n", "1")
		assert.Check(t, !strings.Contains(res.stderr, "log"), res.stderr)
		assert.Equal(t, len(w.logs(t)), 1)
	})
}

// The log of a sandbox that is removed after its command is read before.
func TestTheLogOfASandboxThatIsNotReused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		build := w.hanging(t, hangs)
		run(t, w.docker("kill", "-s", "TERM", w.sandbox(t).Name)).expect(t, 0)
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(w.keptLog(t, res.stderr), "The sandbox was told to stop"))
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

// usesUpAll takes all memory by files in memory, which no process gives back.
const usesUpAll = `touch .ralph/begun; trap '' TERM
while :; do cat /dev/zero >/tmp/full; sleep 0.1; done`

// The loop survives an agent that uses up the sandbox's memory, says so, and brings
// the agent's commits home.
func TestASandboxThatUsesUpItsMemory(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.byDefault()
		w.setenv("RALPH_MEMORY", "96m")
		build := w.hanging(t, "git commit -q --allow-empty -m before; "+usesUpAll)
		res := build.wait(t).expect(t, 6)
		assert.Check(t, is.Contains(res.stderr, "out of memory"))
		assert.Check(t, w.container(t).State.Running)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "before")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// What is half made is removed, and what its parts have said is not lost.
func TestAProxyThatDoesNotComeUp(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("HTTPS_PROXY", "socks5://192.0.2.1:1080")
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		const said = `Error: the host's proxy is of the kind "socks5"`
		assert.Check(t, is.Contains(res.stderr, ".egress has ended (exit code 1). The last lines of its log:\n  20"))
		assert.Check(t, is.Contains(res.stderr, "Z "+said))
		assert.Check(t, is.Contains(w.keptLog(t, res.stderr), said))
	})
}

// A proxy outlives its sandbox's run, but not what the user says differently then.
func TestAHostsProxyThatChangesWhileASandboxIsStopped(t *testing.T) {
	// Not beside tests that give an engine a network with public addresses: its proxies
	// are made anew for that, too.
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		w := newWorld(t, e)
		w.setenv("RALPH_NETWORK", "allowlist")
		w.ok(t, "task", "create", "a", "Title")
		proxy := w.sandbox(t).Name + ".egress"
		since := func() string {
			return run(t, w.docker("inspect", "--format", "{{.Created}} {{.State.StartedAt}}", proxy)).expect(t, 0).stdout
		}
		made := since()
		w.ok(t, "stop")
		w.ok(t, "task", "list")
		assert.Equal(t, since(), made, "nothing has changed")

		w.setenv("HTTPS_PROXY", "http://192.0.2.1:1080")
		w.ok(t, "task", "list")
		assert.Equal(t, since(), made, "a sandbox that runs keeps its proxy")
		w.ok(t, "stop")
		w.ok(t, "task", "list")
		changed := since()
		assert.Assert(t, changed != made)
		w.ok(t, "stop")
		w.setenv("HTTPS_PROXY", "socks5://192.0.2.1:1080")
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `the host's proxy is of the kind "socks5"`))
		w.setenv("HTTPS_PROXY", "")
		w.ok(t, "task", "list")
	})
}

// An agent whose proxy is gone fails in its own way. Why is told.
func TestAProxyThatEndsUnderAnAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		build := w.hanging(t, reach("far.invalid", ".ralph/far")+"; touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.05; done")
		proxy := w.sandbox(t).Name + ".egress"
		run(t, w.docker("kill", proxy)).expect(t, 0)
		w.write(t, filepath.Join(w.repo, ".ralph", "go"), "")
		res := build.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: the proxy "+proxy+" has ended (it was killed). The last lines of its log:\n"))
		assert.Check(t, is.Contains(res.stderr, `"host":"far.invalid"`))
		log := w.keptLog(t, res.stderr)
		assert.Check(t, is.Contains(log, `"ready":true`))
		assert.Check(t, is.Contains(log, `"host":"far.invalid"`))

		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, " log"), res.stderr)
	})
}
