//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// One fault after another under a loop with three tasks.

// fault goes wrong once in the second task of a loop with three.
type fault struct {
	name string
	// step is what the agent does in its first run of the task.
	step string
	// outside happens while the agent works, in place of a step.
	outside func(t *testing.T, m *faultRun)
	// repair repairs by hand what has ended the loop.
	repair func(t *testing.T, m *faultRun)
	// blocks says that it happens until the task is blocked.
	blocks bool
	// reason is part of why the run failed; empty if it does not fail.
	reason string
	// code is the exit code of the loop. One that did not end well is followed by
	// another, which does.
	code int
	// everyEngine is set for faults whose effect depends on the engine.
	everyEngine bool
}

var faults = []fault{
	{name: "nothing", step: "true"},

	// Ignored files, and the backlog, which is out of reach.
	{name: "git-clean", step: "git clean -fdxq; true"},
	{name: "tampering", step: "! ralph task delete tampering/after && ! ralph task done tampering/after && ! ralph task update tampering/after --status done && ! ralph task reopen tampering/before && ! ralph task delete --all --confirm"},

	// Git.
	{name: "other-branch", step: "git checkout -q -b other-branch", reason: "not on the branch"},
	{name: "commits-elsewhere", step: "git checkout -q -b elsewhere && echo x >elsewhere.txt && git add elsewhere.txt && git commit -qm elsewhere", reason: "not on the branch"},
	{name: "detached-head", step: "git checkout -q --detach", reason: "not on the branch"},
	{name: "branch-deleted", step: "git checkout -q --detach; git branch -D main", reason: "not on the branch"},
	{name: "rm-git", outside: breakGit("rm -rf .git"), reason: "git"},
	{name: "no-git-head", outside: breakGit("rm -f .git/HEAD"), reason: "git"},
	{name: "no-objects", outside: breakGit("rm -rf .git/objects"), reason: "git"},
	{name: "broken-index", step: "echo garbage >.git/index", reason: "git"},
	{name: "index-lock", step: "touch .git/index.lock", reason: "git"},
	{name: "merge-under-way", step: "git rev-parse HEAD >.git/MERGE_HEAD"},

	// Tasks.
	{name: "three-failures", step: "exit 1", blocks: true, reason: "blocked after repeated failures", code: 6},

	// Processes and memory.
	{name: "fork-bomb", step: "for i in $(seq 2000); do sleep 300 & done", reason: "process", everyEngine: true},
	{name: "memory-hog", step: "tail /dev/zero", reason: "memory", everyEngine: true},
	{name: "daemon", step: "echo 'sleep 1; setsid sh ~/daemon & exit' >~/daemon; setsid sh ~/daemon >/dev/null 2>&1 &", everyEngine: true},
	{name: "restarting-daemon", step: "echo 'sleep 0.01; setsid sh ~/daemon & exit' >~/daemon; setsid sh ~/daemon >/dev/null 2>&1 &", everyEngine: true},
	{name: "kill-all", step: "kill -9 -1", reason: "killed", everyEngine: true},

	// The sandbox, from outside.
	{name: "docker-kill", outside: func(t *testing.T, m *faultRun) { m.docker(t, "kill", m.id) }, reason: "killed", everyEngine: true},
	{name: "docker-stop", outside: func(t *testing.T, m *faultRun) { m.docker(t, "stop", "-t", "1", m.id) }, reason: "was stopped", code: 1},
	{name: "docker-restart", outside: func(t *testing.T, m *faultRun) { m.docker(t, "restart", "-t", "1", m.id) }, reason: "restarted", everyEngine: true},
	{name: "docker-rm", outside: func(t *testing.T, m *faultRun) { m.docker(t, "rm", "-f", m.id) }, reason: "sandbox "},
	{name: "proxy-killed", outside: func(t *testing.T, m *faultRun) {
		m.docker(t, "kill", m.name+".egress")
		m.release(t)
	}},
	{name: "proxy-removed", outside: func(t *testing.T, m *faultRun) {
		m.docker(t, "rm", "-f", m.name+".egress")
		m.release(t)
	}},
	{name: "paused", outside: func(t *testing.T, m *faultRun) {
		m.docker(t, "pause", m.id)
		assert.Check(t, is.Contains(m.ok(t, "ls"), "paused"))
		m.docker(t, "unpause", m.id)
		m.release(t)
	}},
	{name: "loop-killed", outside: func(t *testing.T, m *faultRun) {
		m.script(t, killScript("ralph [b]uild "))
	}, reason: "killed"},
	{name: "agent-killed", outside: func(t *testing.T, m *faultRun) {
		m.script(t, killScript("[_]shell-agent"))
	}, reason: "137"},
	{name: "plugin-killed", outside: func(t *testing.T, m *faultRun) {
		m.build.signalGroup(syscall.SIGKILL)
		m.release(t)
	}, code: 137, repair: func(t *testing.T, m *faultRun) { m.ralph(t, "attach") }}, // or else it waits
}

// assertNoDaemon is a step that fails while a daemon of an earlier run is there.
const assertNoDaemon = `! grep -lsz '/[d]aemon$' /proc/[0-9]*/cmdline`

// faultRun is a loop with a fault.
type faultRun struct {
	*world
	fault
	began    time.Time
	name, id string // of the sandbox
	build    *process
}

// TestFaults asserts the same after each fault: no task is lost or done twice, and the
// loop continues.
func TestFaults(t *testing.T) {
	t.Parallel()
	home := enginesFor(t)[0]
	for _, e := range engines.Need(t) {
		rows := sample(faults, 4)
		if e != home {
			rows = slices.DeleteFunc(slices.Clone(rows), func(m fault) bool { return !m.everyEngine })
		}
		// The faults of one world run in sequence: the invariants after each are the
		// prerequisites of the next.
		const worlds = 3
		for n := range worlds {
			var mine []fault
			for i := n; i < len(rows); i += worlds {
				mine = append(mine, rows[i])
			}
			t.Run(fmt.Sprint(e.Name, n+1), func(t *testing.T) {
				t.Parallel()
				runScenarios(t, mine, func() *world { return newWorld(t, e) })
			})
		}
	}
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		rows := slices.DeleteFunc(slices.Clone(faults), func(m fault) bool { return !slices.Contains(sample(remoteFaults, 2), m.name) })
		runScenarios(t, rows, func() *world {
			w, _ := newRemoteWorld(t, engineAfter(remoteEnginesFor(t)[0], 1), transports[0])
			return w
		})
	})
}

// remoteFaults are those of loops on a remote engine: git is the clone's there, and the sandbox is
// repaired through the connection.
var remoteFaults = []string{"git-clean", "no-git-head", "docker-kill", "plugin-killed"}

// runScenarios runs the faults in one world after the other: the next one comes after a failure.
func runScenarios(t *testing.T, rows []fault, next func() *world) {
	var w *world
	for _, row := range rows {
		if w == nil {
			w = next()
			w.prepareForFaults(t)
		}
		if !t.Run(row.name, func(t *testing.T) { w.runScenario(t, row) }) {
			w = nil
		}
	}
}

// prepareForFaults has sandboxes as without any settings, but with low limits.
func (w *world) prepareForFaults(t *testing.T) {
	t.Helper()
	w.useDefaults()
	w.setenv("RALPH_MEMORY", "256m")
	w.setenv("RALPH_PIDS", "128")
	w.write(t, filepath.Join(w.repo, ".gitignore"), "/begun-*\n/go-*\n")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-qm", "ignore")
}

func (w *world) runScenario(t *testing.T, row fault) {
	m := &faultRun{world: w, fault: row, began: time.Now()}
	step := row.step
	if row.outside != nil {
		step = "touch begun-" + row.name + "; while ! test -e go-" + row.name + "; do sleep 0.05; done"
	}
	// The cache volume outlives the sandbox.
	times := 1
	if row.blocks {
		times = 3
	}
	once := fmt.Sprintf(`test "$(cat "$GOCACHE/%[1]s" 2>/dev/null | wc -l)" = %[2]d && exit; echo >>"$GOCACHE/%[1]s"; `, row.name, times)
	tasks := []task{m.task("before", 1), m.task("bad", 2, once+step), m.task("after", 3, assertNoDaemon)}
	w.plan(t, tasks...)

	w.createSandbox(t)
	sb := w.sandbox(t)
	m.name, m.id = sb.Name, sb.ID
	m.build = start(t, w.docker("ralph", "build"))
	if row.outside != nil {
		waitForFile(t, w.pathInside(t, "begun-"+row.name))
		row.outside(t, m)
	}
	res := m.build.wait(t)
	t.Logf("exit code %d\n%s\n%s", res.code, res.stdout, res.stderr)
	assert.Check(t, is.Equal(res.code, row.code))
	if row.code != 0 {
		assert.Check(t, is.Contains(res.stdout+res.stderr, row.reason))
		if row.blocks {
			assert.Check(t, is.Equal(w.statuses(t)[row.name+"/bad"], "blocked"))
			assert.Check(t, is.Equal(w.statuses(t)[row.name+"/after"], "done"))
			w.ok(t, "task", "update", row.name+"/bad", "--status", "open")
		}
		if row.repair != nil {
			row.repair(t, m)
		}
		w.ralph(t, "build").expect(t, 0)
	}
	m.assertInvariants(t)
}

func (m *faultRun) task(id string, priority int, steps ...string) task {
	id = m.fault.name + "/" + id
	file := strings.ReplaceAll(id, "/", "-") + ".txt"
	return task{ID: id, Title: "Add " + id, Priority: priority, Steps: append(steps, "git cat-file -e HEAD:"+file+" 2>/dev/null || echo x >"+file)}
}

func (m *faultRun) docker(t *testing.T, args ...string) {
	t.Helper()
	run(t, m.world.docker(args...)).expect(t, 0)
}

// script runs a script in the sandbox, as the agent's user.
func (m *faultRun) script(t *testing.T, script string) {
	t.Helper()
	m.docker(t, "exec", "-u", m.insideUser(), m.id, "sh", "-c", script)
}

// killScript kills the processes whose command line matches.
func killScript(pattern string) string {
	return "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '" + pattern + "' && kill -9 ${p#/proc/} 2>/dev/null; done; true"
}

// breakGit breaks the sandbox's git directory once the commit of the first task
// has been fetched from it.
func breakGit(script string) func(t *testing.T, m *faultRun) {
	return func(t *testing.T, m *faultRun) {
		eventually(t, func() error {
			if id := m.fault.name + "/before"; m.git(t, "log", "-1", "--format=%s", "main") != "Add "+id {
				return errors.New("the commit of " + id + " is not on the branch")
			}
			return nil
		})
		m.script(t, script+"; true") // a part of it is a mount
		m.release(t)
	}
}

// release lets the waiting agent continue.
func (m *faultRun) release(t *testing.T) {
	t.Helper()
	m.write(t, m.pathInside(t, "go-"+m.fault.name), "")
}

// assertInvariants asserts what has to hold after each fault.
func (m *faultRun) assertInvariants(t *testing.T) {
	t.Helper()
	row := m.fault
	statuses := m.statuses(t)
	for _, name := range []string{"before", "bad", "after"} {
		id := row.name + "/" + name
		assert.Check(t, is.Equal(statuses[id], "done"), id)
		assert.Check(t, is.Equal(strings.Count("\n"+m.git(t, "log", "--format=%s", "main")+"\n", "\nAdd "+id+"\n"), 1), "commits of %s", id)
	}
	assert.Check(t, is.Equal(m.git(t, "status", "--porcelain"), ""))
	assert.Check(t, is.Equal(m.git(t, "rev-parse", "--abbrev-ref", "HEAD"), "main"))
	run(t, m.command("git", "fsck", "--strict", "--no-dangling")).expect(t, 0)

	killed := row.code == 137 // what the loop logs after that arrives with the next command
	if killed {
		m.waitForIdle(t)
	} else {
		m.assertLogged(t)
	}
	again := m.ralph(t, "build").expect(t, 0)
	assert.Check(t, is.Contains(again.stdout, "All tasks complete"))
	assert.Check(t, !strings.Contains(again.stdout, "━━ Done"), "an agent ran:\n%s", again.stdout)
	if killed {
		m.assertLogged(t)
	}
	m.waitForIdle(t)
}

// assertLogged asserts that the log has each run that finished a task once, and why the bad one failed.
func (m *faultRun) assertLogged(t *testing.T) {
	t.Helper()
	row, runsOf := m.fault, m.logged(t, m.began)
	for _, name := range []string{"before", "bad", "after"} {
		id := row.name + "/" + name
		runs := runsOf[id]
		done := 0
		for _, it := range runs {
			if it.Outcome == "done" {
				done++
			}
		}
		if name != "bad" {
			assert.Check(t, is.Equal(done, 1), "%s in the log: %+v", id, runs)
		} else if row.code == 0 && row.reason != "" {
			// The task of a loop that was killed may be unknown.
			failed := slices.ContainsFunc(append(runs, runsOf[""]...), func(it loggedRun) bool {
				return it.Outcome != "done" && strings.Contains(it.Reason, row.reason)
			})
			assert.Check(t, failed, "no run of %s failed because of %q: %+v", id, row.reason, runs)
		}
	}
}

// loggedRun is what a log has of one run.
type loggedRun struct {
	Tasks   []string  `json:"tasks"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason"`
	Started time.Time `json:"started"`
}

// logged returns the runs since a time that the logs have of each task.
func (w *world) logged(t *testing.T, since time.Time) map[string][]loggedRun {
	t.Helper()
	found := map[string][]loggedRun{}
	for _, file := range w.logFiles(t, "iterations.jsonl") {
		for line := range strings.Lines(w.readFile(t, file)) {
			var run loggedRun
			assert.NilError(t, errors.Join(json.Unmarshal([]byte(line), &run)), file)
			if run.Started.Before(since) {
				continue
			}
			if len(run.Tasks) == 0 {
				run.Tasks = []string{""}
			}
			for _, id := range run.Tasks {
				found[id] = append(found[id], run)
			}
		}
	}
	return found
}
