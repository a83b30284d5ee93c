//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// Sandboxes that fail during a loop, and repositories that are moved or copied: the loop
// continues, and no commit is lost.

// sandboxFailures are failures of a sandbox while a loop runs in it. A row is the
// docker command that causes it (NAME is the sandbox, USER the agent's user) and the
// message of the loop's command.
var sandboxFailures = []struct{ name, command, said string }{
	{"killed from outside", "kill NAME", "was killed: repairing it"},
	{"everything is killed from inside", "exec -u USER NAME sh -c 'kill -9 -1'", `"ralph build" was killed`},
	{"restarted", "restart -t 0 NAME", "was restarted: repairing it"},
	{"paused", "pause NAME", "Unpausing sandbox"},
	{"the proxy is killed", "kill NAME.egress", "was interrupted: restored it"},
	{"the proxy is removed", "rm -f NAME.egress", "was interrupted: restored it"},
	{"the proxy is paused", "pause NAME.egress", "was interrupted: restored it"},
}

// A loop continues after each failure of its sandbox: every task is done once, and all
// commits are on the branch.
func TestLoopSurvivesFailuresOfItsSandbox(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.useDefaults()
		file := func(name string) string { return w.pathInside(t, ".ralph/"+name) }
		var tasks []task
		for i, m := range sandboxFailures {
			id := string(rune('a' + i))
			tasks = append(tasks, task{ID: id, Title: m.name, Priority: i, Steps: []string{
				"touch .ralph/at-" + id + "; until test -e .ralph/go-" + id + "; do sleep 0.1; done",
				// 403 is the proxy's answer: it runs, and has its policy.
				"for i in 1 2 3 4 5 6 7 8 9; do timeout 5 git ls-remote https://nowhere.example/ 2>&1 | grep 403 && break; done",
				"echo " + id + " >" + id + ".txt && git add " + id + ".txt && git commit -qm 'Add " + id + "'",
			}})
		}
		w.plan(t, tasks...)
		w.createSandbox(t)
		name := w.sandbox(t).Name
		labels := w.container(t).Config.Labels
		words := strings.NewReplacer("NAME", name, "USER", labels[labelPrefix+"user"])
		build := start(t, w.docker("ralph", "build"))
		for i, m := range sandboxFailures {
			eventually(t, func() error {
				if _, err := os.Stat(file("at-" + tasks[i].ID)); err != nil {
					return fmt.Errorf("%w: %s", err, build.stderr.String())
				}
				return nil
			})
			before := strings.Count(build.stderr.String(), m.said)
			run(t, w.command("sh", "-c", "exec docker "+words.Replace(m.command))) // "kill -1" kills its own shell, too
			eventually(t, func() error {
				if strings.Count(build.stderr.String(), m.said) > before {
					return nil
				}
				return fmt.Errorf("%s: not said: %s", m.name, build.stderr.String())
			})
			w.write(t, file("go-"+tasks[i].ID), "")
		}
		build.wait(t).expect(t, 0)
		for id, status := range w.statuses(t) {
			assert.Check(t, is.Equal(status, "done"), id)
		}
		subjects := strings.Split(w.git(t, "log", "--format=%s"), "\n")
		slices.Sort(subjects) // what was interrupted is done later
		assert.DeepEqual(t, subjects, []string{"Add a", "Add b", "Add c", "Add d", "Add e", "Add f", "Add g", "first"})
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// A proxy that is killed under an agent is restored with the agent's key.
func TestRecreatedProxyHasItsKeys(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		turns := append([]modelapi.Turn{modelapi.Bash("mkdir -p .ralph; touch .ralph/at; until test -e .ralph/go; do sleep 0.1; done")}, w.buildTurns("shop/01", "one")...)
		api, url := w.serveModel(t, [][]modelapi.Turn{turns})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-that-comes-back")
		w.ok(t, "--agent", "claude", "--base", base, "task", "create", "shop/01", "Add it")
		build := start(t, w.docker("ralph", "--agent", "claude", "--base", base, "build", "-n", "1"))
		waitForFile(t, w.pathInside(t, ".ralph/at"))
		run(t, w.docker("kill", w.sandbox(t).Name+".egress")).expect(t, 0)
		build.stderr.WaitFor(t, "restored it")
		w.write(t, w.pathInside(t, ".ralph/go"), "")
		build.wait(t).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one")
		for _, r := range api.Requests() {
			assert.Equal(t, r.Key, "sk-ant-that-comes-back")
		}
	})
}

// A sandbox that the user stops is not restarted.
func TestLoopEndsWhenItsSandboxIsStopped(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Wait", Steps: []string{"touch .ralph/at; sleep 600"}})
		w.createSandbox(t)
		for _, stop := range [][]string{{"stop", w.sandbox(t).Name}, {"ralph", "stop", "--now"}} {
			build := start(t, w.docker("ralph", "build"))
			waitForFile(t, w.pathInside(t, ".ralph/at"))
			assert.NilError(t, os.Remove(w.pathInside(t, ".ralph/at")))
			run(t, w.docker(stop...)).expect(t, 0)
			res := build.wait(t)
			assert.Check(t, res.code != 0)
			assert.Check(t, !w.container(t).State.Running, res.stderr)
		}
	})
}

// A second clone of a repository has its own sandbox, and does not affect that of the
// first.
func TestSecondCloneHasItsOwnSandbox(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Of the first"})
		w.createSandbox(t)
		first := *w
		second := *w
		second.repo = w.repo + "-again"
		run(t, w.command("cp", "-a", w.repo, second.repo)).expect(t, 0)
		second.plan(t, task{ID: "b", Title: "Of the second"})
		second.createSandbox(t)
		names := map[string]string{}
		for _, c := range w.containers(t) {
			names[c.Labels[labelPrefix+"worktree"]] = strings.TrimPrefix(c.Names[0], "/")
		}
		plain := "ralph-" + strings.ReplaceAll(w.slug, "/", "-") + "-main"
		assert.Equal(t, names[first.repo], plain)
		assert.Assert(t, is.Regexp("^"+plain+"-[0-9a-f]{6}$", names[second.repo]))
		assert.DeepEqual(t, first.statuses(t), map[string]string{"a": "open"})
		assert.DeepEqual(t, second.statuses(t), map[string]string{"b": "open"})
		assert.Check(t, is.Contains(second.ok(t, "ls"), names[second.repo]+" (current)"))

		second.ok(t, "clean", "--force")
		assert.Equal(t, strings.TrimPrefix(w.container(t).Name, "/"), plain)

		// So has another user.
		other := newRootWorld(t, w.engine)
		other.useDefaults()
		other.slug = w.slug
		other.git(t, "remote", "set-url", "origin", "https://git.example/"+w.slug+".git")
		other.plan(t, task{ID: "c", Title: "Of another user"})
		other.createSandbox(t)
		assert.Equal(t, len(w.containers(t)), 2)
		assert.DeepEqual(t, other.statuses(t), map[string]string{"c": "open"})
		assert.DeepEqual(t, first.statuses(t), map[string]string{"a": "open"})
		other.ok(t, "clean", "--force")
		assert.Equal(t, strings.TrimPrefix(w.container(t).Name, "/"), plain)
	})
}

// moveWithCommit leaves an unfetched commit in the sandbox, and moves the project
// directory.
func (w *world) moveWithCommit(t *testing.T) {
	t.Helper()
	w.setenv("RALPH_WORKSPACE", "clone")
	w.plan(t, task{ID: "a", Title: "Commit and wait", Steps: []string{"echo a >a.txt; git add a.txt; git commit -qm inside; touch .ralph/at; sleep 600"}})
	build := start(t, w.docker("ralph", "build"))
	waitForFile(t, w.pathInside(t, ".ralph/at"))
	build.signalGroup(syscall.SIGKILL)
	build.wait(t)
	run(t, w.docker("stop", "-t", "0", w.sandbox(t).Name)).expect(t, 0)
	was := w.repo
	w.repo += "-moved"
	assert.NilError(t, os.Rename(was, w.repo))
	assert.Check(t, is.Contains(w.ok(t, "ls"), was))
}

// The sandbox of a project that was moved is recreated, and its unfetched commits
// arrive.
func TestMovedProjectKeepsItsCommits(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.moveWithCommit(t)
		res := w.ralph(t, "shell", "--", "true")
		assert.Check(t, res.code != 0 && strings.Contains(res.stderr, "--recreate"), res.stderr)
		w.dialogue(t, "shell -- true", "worktree from "+strings.TrimSuffix(w.repo, "-moved")+" to "+w.repo, "n").expect(t, 1)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "first")
		res = w.dialogue(t, "shell -- true", "Recreate it?", "y").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Commits of a run that was not completed are not on your branch main, but at "+w.sandboxRef(t, "main")))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", w.sandboxRef(t, "main")), "inside")
		assert.Check(t, is.Contains(w.ok(t, "ls"), w.repo))
		w.ok(t, "clean", "--force")
		assert.Equal(t, len(w.containers(t)), 0)
	})
}

// "repair" restores a sandbox after each kind of failure.
func TestRepair(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.useDefaults()
		w.configureUser(t, "[sandbox.resources]\npids = 64\n")
		w.plan(t, task{ID: "a", Title: "Stays"})
		w.createSandbox(t)
		name := w.sandbox(t).Name
		labels := w.container(t).Config.Labels
		words := strings.NewReplacer("NAME", name, "USER", labels[labelPrefix+"user"])
		for _, tc := range []struct{ name, command, said string }{
			{"nothing", "", "works"},
			{"paused", "pause NAME", "It is paused"},
			{"killed", "kill NAME", "It is stopped"},
			{"no proxy", "rm -f NAME.egress", "works"},
			{"no process left", "exec -u USER NAME sh -c 'for i in $(seq 100); do sleep 600 & done'", "no process can be started in it"},
		} {
			if tc.command != "" {
				run(t, w.command("sh", "-c", "exec docker "+words.Replace(tc.command))) // the last one fails
			}
			said := w.ralph(t, "repair").expect(t, 0).stderr
			assert.Check(t, is.Contains(said, tc.said), tc.name)
			assert.Check(t, is.Contains(said, "Sandbox "+name+" works"), tc.name)
			assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
			proxy := run(t, w.docker("inspect", "-f", "{{.State.Running}}", name+".egress")).expect(t, 0).stdout
			assert.Equal(t, proxy, "true\n", tc.name)
		}
	})
}

// hangingStep is a step that does not end.
const hangingStep = "touch .ralph/begun; sleep 1000"

// startHanging starts an agent that does not end.
func (w *world) startHanging(t *testing.T, step string) *process {
	t.Helper()
	w.plan(t, task{ID: "a", Title: "Hang", Steps: []string{step}})
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	waitForFile(t, w.pathInside(t, ".ralph/begun"))
	assert.NilError(t, os.Remove(w.pathInside(t, ".ralph/begun")))
	return build
}

// savedLogs are the names and contents of the saved logs.
func (w *world) savedLogs(t *testing.T) map[string]string {
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

// savedLog returns the log that a message names.
func (w *world) savedLog(t *testing.T, stderr string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^All of it is in (.*)$`).FindStringSubmatch(stderr)
	assert.Assert(t, m != nil, stderr)
	content, ok := w.savedLogs(t)[m[1]]
	assert.Assert(t, ok, m[1])
	return content
}

// A sandbox that ends under an agent is repaired, the reason is reported, and the log of
// its first process is saved.
func TestKilledSandboxIsRepairedAndItsLogKept(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		build := w.startHanging(t, hangingStep)
		name := w.sandbox(t).Name
		run(t, w.docker("kill", name)).expect(t, 0)
		res := build.wait(t).expect(t, 6) // the run that was lost counts
		assert.Check(t, is.Contains(res.stderr, "Warning: sandbox "+name+" was killed: repairing it and resuming the loop\n"))
		assert.Check(t, is.Contains(res.stderr, "Error: the last run did not finish: sandbox "+name+" was killed\n"))
		assert.Check(t, w.container(t).State.Running)
		assert.Equal(t, len(w.savedLogs(t)), 0)

		build = w.startHanging(t, hangingStep)
		run(t, w.docker("kill", "-s", "TERM", name)).expect(t, 0)
		res = build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: sandbox "+name+" was stopped. The last lines of its log:\n  20"))
		assert.Check(t, is.Contains(res.stderr, "Z Sandbox stopped by signal: terminated\n"))
		log := w.savedLog(t, res.stderr)
		assert.Check(t, strings.HasSuffix(log, "Z Sandbox stopped by signal: terminated\n"), log)

		build = w.startHanging(t, hangingStep)
		run(t, w.docker("rm", "-f", name)).expect(t, 0)
		res = build.wait(t).expect(t, 6)
		assert.Check(t, is.Regexp("Warning: sandbox "+name+" was (killed|removed): repairing it and resuming the loop\n", res.stderr))
		assert.Check(t, is.Regexp("Error: the last run did not finish: sandbox "+name+" was (killed|removed)\n", res.stderr))
		assert.Check(t, w.container(t).State.Running)

		// The failure of an agent saves no log.
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Fail", Steps: []string{"exit 9"}})
		res = w.ralph(t, "build", "-n", "1")
		assert.Check(t, !strings.Contains(res.stderr, "log"), res.stderr)
		assert.Equal(t, len(w.savedLogs(t)), 1)
	})
}

// The log of a one-time sandbox is saved before the sandbox is removed.
func TestLogOfAOneTimeSandboxIsKept(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox]\nreuse_container = false\n")
		build := w.startHanging(t, hangingStep)
		run(t, w.docker("kill", "-s", "TERM", w.sandbox(t).Name)).expect(t, 0)
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(w.savedLog(t, res.stderr), "Sandbox stopped by signal"))
		assert.Equal(t, len(w.sandboxes(t)), 0)
	})
}

// When a proxy ends, its agent fails, and the reason is reported.
func TestEndedProxyIsReported(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		build := w.startHanging(t, "test -e .ralph/go && exit; "+reachStep("far.invalid", ".ralph/far")+"; touch .ralph/begun; while ! test -e .ralph/go; do sleep 0.05; done; exit 1")
		proxy := w.sandbox(t).Name + ".egress"
		run(t, w.docker("kill", proxy)).expect(t, 0)
		w.write(t, w.pathInside(t, ".ralph/go"), "")
		res := build.wait(t)
		assert.Assert(t, res.code != 0, res.stderr)
		assert.Check(t, is.Contains(res.stderr, "Warning: proxy "+proxy+" was killed. The last lines of its log:\n"))
		assert.Check(t, is.Contains(res.stderr, `"host":"far.invalid"`))
		log := w.savedLog(t, res.stderr)
		assert.Check(t, is.Contains(log, `"ready":true`))
		assert.Check(t, is.Contains(log, `"host":"far.invalid"`))

		res = w.ralph(t, "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, " log"), res.stderr)
	})
}
