//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Limits of a sandbox: memory, processes, and what happens when an agent reaches
// them.

// An agent that starts processes until there is no room left, and then makes the
// sandbox's first process work, is ended with all that it has started, as are
// processes that never stop starting others. The loop goes on.
func TestProcessLimitEndsOnlyTheRun(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]string{
		"full": `perl -e 'use Socket; until (-e ".ralph/full") { select undef, undef, undef, 0.05 }
	for (1..50) { socket my $s, PF_UNIX, SOCK_STREAM, 0; connect $s, pack_sockaddr_un("\0docker-ralph-deadline") and syswrite $s, "0\n"; push @s, $s } sleep 600' &
setsid bash -c 'while :; do setsid bash -c "while :; do sleep 600 & done" & sleep 1; done' &
for i in $(seq 1000); do sleep 600 & done 2>/dev/null
: >.ralph/full
while :; do sleep 600 & done 2>/dev/null`,
		"fork bomb": `setsid perl -e 'exit if fork; while (1) { exit if fork }' &
perl -e 'while (1) { my $p = fork; exit if !defined $p && rand() < 0.5 }' &
exec perl -e 'use IO::File; until (($_ = IO::File->new("/sys/fs/cgroup/pids/pids.events") || IO::File->new("/sys/fs/cgroup/pids.events")) && <$_> !~ / 0$/) {} exit 3'`,
	} {
		t.Run(name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, w *world) {
				w.configure(t, "[agent]\nname = \"mine\"\n[agents.mine]\ncommand = [\"bash\", \"{prompt_file}\"]\n")
				flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
				w.ok(t, append(flags, "task", "create", "a", "Add one")...)
				w.write(t, w.repo+"/.ralph/prompts/build.md", `ralph task claim a
if mkdir .ralph/again 2>/dev/null; then
`+agent+`
fi
touch one; git add one; git commit -qm "Add one"
ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}"
`)
				res := w.ralph(t, append(flags, "build")...).expect(t, 0)
				assert.Check(t, is.Regexp(map[string]string{"full": "the agent was stopped", "fork bomb": "the agent (was stopped|exited with code 3)"}[name]+": process limit \\(1024\\) reached", res.stderr))
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one")
				w.ok(t, append(flags, "shell", "--", "sh", "-c", "! grep -lz '^p[e]rl$\\|^sl[e]ep$' /proc/[0-9]*/cmdline")...)
			})
		})
	}
}

// When the kernel ends a run for lack of memory, the limit and a hint are printed.
func TestMemoryLimitIsReported(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox.resources]\nmemory = \"128m\"\n")
		w.plan(t, task{ID: "a", Title: "Eat", Steps: []string{"tail /dev/zero"}})
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, is.Contains(res.stderr, "out of memory: the limit is 128MiB\nHint: raise the limit with --memory"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// A killed loop cannot end its agent's daemons. The next loop ends them before its
// first run, and no other processes.
func TestNextLoopEndsProcessesOfAKilledOne(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Leave a daemon", Steps: []string{
			`[ -e started ] || { setsid sh -c 'while :; do date >>daemon; setsid sleep 1; done' >/dev/null 2>&1 & : >started; sleep 600; }`,
			"git add started",
		}})
		first := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "started"))
		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "touch beside; until [ -e done ]; do sleep 0.05; done; exit 7"))
		waitForFile(t, w.pathInside(t, "beside"))
		w.ok(t, "shell", "--", "sh", "-c", `kill -9 $(grep -lz '^build$' /proc/[0-9]*/cmdline | cut -d/ -f3 | head -n1)`)
		first.wait(t)
		w.ralph(t, "build").expect(t, 0)
		size := len(w.readFile(t, w.pathInside(t, "daemon")))
		w.write(t, w.pathInside(t, "done"), "")
		shell.wait(t).expect(t, 7)
		w.ok(t, "shell", "--", "sh", "-c", "! grep -lz 'd[a]te >>daemon' /proc/[0-9]*/cmdline")
		assert.Equal(t, len(w.readFile(t, w.pathInside(t, "daemon"))), size)
	})
}

// A sandbox that has reached its process limit is restarted by the next command, unless
// another command runs in it.
func TestFullSandboxIsRestarted(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox.resources]\npids = 128\n")
		w.plan(t, task{ID: "a", Title: "Add one", Steps: []string{"touch one"}})
		w.createSandbox(t)
		name := w.sandbox(t).Name
		fill := func() {
			run(t, w.docker("exec", name, "sh", "-c", "for i in $(seq 200); do setsid sleep 600 & done")) // the last one fails
		}
		said := "Sandbox " + name + " has reached its process limit (128): restarting it\n"
		restarted := func(command ...string) {
			t.Helper()
			fill()
			res := w.ralph(t, command...).expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, said))
			assert.Check(t, is.Contains(res.stdout, "a"))
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, "runtime"), "%s%s", res.stdout, res.stderr)
		}
		restarted("shell", "--", "echo", "a")
		w.setenv("RALPH_WORKSPACE", "clone") // which is looked at before
		w.createSandbox(t, "--recreate")
		restarted("shell", "--", "echo", "a")
		restarted("build")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one")

		// Another command works in it.
		other := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "mkfifo .ralph/done; touch beside; read x <.ralph/done"))
		waitForFile(t, w.pathInside(t, "beside"))
		fill()
		res := w.ralph(t, "shell", "--", "true")
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "sandbox "+name+" has reached its process limit (128), and another command is running in it\nHint: "))
		w.write(t, w.pathInside(t, ".ralph/done"), "\n")
		other.wait(t).expect(t, 0)
	})
}

func TestLimitsAreSetAndChanged(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		configure := func(toml string) {
			w.configure(t, toml)
			w.git(t, "add", "-A")
			w.git(t, "commit", "-qm", "limits")
		}
		configure(initialLimits)
		w.createSandbox(t)
		first := w.container(t)
		name := first.Name[1:]
		limits := func() [4]int64 {
			t.Helper()
			c := w.container(t)
			assert.Equal(t, c.ID, first.ID, "it was recreated")
			return [4]int64{c.HostConfig.Memory, c.HostConfig.MemorySwap, c.HostConfig.NanoCPUs, *c.HostConfig.PidsLimit}
		}
		initial := [4]int64{512 << 20, 512 << 20, 15e8, 300} // no swap
		assert.Equal(t, limits(), initial)

		configure(otherLimits)
		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Changed sandbox "+name+": memory from 512MiB to 640MiB, cpus from 1.5 to 1, pids from 300 to 200\n"))
		other := [4]int64{640 << 20, 640 << 20, 1e9, 200}
		assert.Equal(t, limits(), other)
		assert.Equal(t, w.ralph(t, "shell", "--", "true").expect(t, 0).stderr, "")

		// A command keeps its limits. Flags beat the file; the engine has fewer CPUs.
		busy := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "mkfifo .ralph/done; touch .ralph/beside; read x <.ralph/done"))
		waitForFile(t, w.pathInside(t, ".ralph/beside"))
		res = w.ralph(t, "--memory", "700m", "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: sandbox "+name+" was not changed (memory from 640MiB to 700MiB): a command is running in it\n"))
		assert.Equal(t, limits(), other)
		w.write(t, w.pathInside(t, ".ralph/done"), "\n")
		busy.wait(t).expect(t, 0)
		for _, said := range []string{"Changed sandbox " + name + ": memory from 640MiB to 700MiB, cpus from 1 to 900\n", ""} {
			res = w.ralph(t, "--memory", "700m", "--cpus", "900", "shell", "--", "true").expect(t, 0)
			assert.Check(t, is.Equal(res.stderr, said))
		}
		w.ralph(t, "stop").expect(t, 0)
		w.createSandbox(t, "--recreate")
		second := w.container(t)
		assert.Assert(t, second.ID != first.ID)
		assert.Equal(t, second.HostConfig.Memory, int64(640<<20))
	})
}

// exhaustMemory fills the memory with files on a tmpfs, which outlive the process.
const exhaustMemory = `touch .ralph/begun; trap '' TERM
while :; do cat /dev/zero >/tmp/full; sleep 0.1; done`

// A loop survives an agent that uses up the sandbox's memory, reports it, and fetches
// the agent's commits.
func TestLoopSurvivesAFullMemory(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.useDefaults()
		w.setenv("RALPH_MEMORY", "96m")
		build := w.startHanging(t, "git commit -q --allow-empty -m before; "+exhaustMemory)
		res := build.wait(t).expect(t, 6)
		assert.Check(t, is.Contains(res.stderr, "out of memory"))
		assert.Check(t, w.container(t).State.Running)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s", w.sandboxRef(t, "main")), "before")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// exhaustAll uses up all memory and all processes.
const exhaustAll = `perl -e '$x = "x" x (600 << 20)'; memory=$?
perl -e 'for (;;) { my $p = fork; exit 7 if !defined $p; if (!$p) { $SIG{TERM} = "IGNORE"; sleep 1000; exit } }'
echo $memory $? >.ralph/ends; exit 3`

// An agent that uses up memory and processes fails. The loop survives and reports it,
// and the sandbox stays usable.
func TestLoopSurvivesUsedUpMemoryAndProcesses(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.setenv("RALPH_MEMORY", "256m")
		w.setenv("RALPH_PIDS", "200")
		w.plan(t, task{ID: "a", Title: "Use it up", Steps: []string{exhaustAll}})
		res := w.ralph(t, "build", "-n", "1").expect(t, 6)
		assert.Check(t, is.Contains(res.stderr, "process limit (200) reached\nHint: raise the limit with RALPH_PIDS"))
		assert.Equal(t, w.readFile(t, w.pathInside(t, ".ralph/ends")), "137 7\n")
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), "Fail reason: process limit (200) reached: step 1 failed (exit code 3)"))
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Work on", Steps: []string{"echo b >b.txt"}})
		w.ok(t, "build")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"b": "done"})
	})
}
