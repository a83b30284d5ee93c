//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// An agent that starts processes until there is no room left, and then makes the
// sandbox's first process work, is ended with all that it has started, as are
// processes that never stop starting others. The loop goes on.
func TestTheProcessLimitEndsTheRunOnly(t *testing.T) {
	for name, tc := range map[string]struct{ agent, reason string }{
		"full": {`perl -e 'use Socket; until (-e ".ralph/full") { select undef, undef, undef, 0.05 }
	for (1..50) { socket my $s, PF_UNIX, SOCK_STREAM, 0; connect $s, pack_sockaddr_un("\0docker-ralph-deadline") and syswrite $s, "0\n"; push @s, $s } sleep 600' &
setsid bash -c 'while :; do setsid bash -c "while :; do sleep 600 & done" & sleep 1; done' &
for i in $(seq 1000); do sleep 600 & done 2>/dev/null
: >.ralph/full
while :; do sleep 600 & done 2>/dev/null`, "the agent was ended: process limit (1024) reached"},
		"fork bomb": {
			`setsid perl -e 'exit if fork; while (1) { exit if fork }' &
perl -e 'while (1) { my $p = fork; exit if !defined $p && rand() < 0.5 }' &
exec perl -e 'use IO::File; until (($_ = IO::File->new("/sys/fs/cgroup/pids/pids.events") || IO::File->new("/sys/fs/cgroup/pids.events")) && <$_> !~ / 0$/) {} exit 3'`,
			"the agent exited with code 3: process limit (1024) reached",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.configure(t, "[agent]\nname = \"mine\"\n[agents.mine]\ncommand = [\"bash\", \"{prompt_file}\"]\n")
				flags := []string{"--agent", "mine", "--image", engines.BaseImage()}
				w.ok(t, append(flags, "task", "create", "a", "Add one")...)
				w.write(t, w.repo+"/.ralph/prompts/build.md", `ralph task claim a
if mkdir .ralph/again 2>/dev/null; then
`+tc.agent+`
fi
touch one; git add one; git commit -qm "Add one"
ralph task done a --result "{\"commit\":\"$(git rev-parse HEAD)\"}"
`)
				w.own(t, w.repo+"/.ralph/prompts")
				res := w.ralph(t, append(flags, "build")...).expect(t, 0)
				assert.Check(t, is.Contains(res.stderr, tc.reason))
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one")
				w.ok(t, append(flags, "shell", "--", "sh", "-c", "! grep -lz '^p[e]rl$\\|^sl[e]ep$' /proc/[0-9]*/cmdline")...)
			})
		})
	}
}

// A run that the kernel ends for lack of memory says so, and how to get more.
func TestTheMemoryLimitIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox.resources]\nmemory = \"128m\"\n")
		w.plan(t, task{ID: "a", Title: "Eat", Steps: []string{"tail /dev/zero"}})
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, is.Contains(res.stderr, "out of memory: the limit is 128MiB\nHint: raise the limit with --memory"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// A ralph that is killed cannot end its agent's daemons. The next loop does, before
// its first run, and leaves other commands alone.
func TestLeftoversOfAKilledLoopEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Leave a daemon", Steps: []string{
			`[ -e started ] || { setsid sh -c 'while :; do date >>daemon; setsid sleep 1; done' >/dev/null 2>&1 & : >started; sleep 600; }`,
			"git add started",
		}})
		first := start(t, w.docker("ralph", "build"))
		appears(t, w.repo+"/started")
		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "touch beside; until [ -e done ]; do sleep 0.05; done; exit 7"))
		appears(t, w.repo+"/beside")
		w.ok(t, "shell", "--", "sh", "-c", `kill -9 $(grep -lz '^build$' /proc/[0-9]*/cmdline | cut -d/ -f3 | head -n1)`)
		first.wait(t)
		w.ralph(t, "build").expect(t, 0)
		size := len(w.read(t, "daemon"))
		w.write(t, w.repo+"/done", "")
		shell.wait(t).expect(t, 7)
		w.ok(t, "shell", "--", "sh", "-c", "! grep -lz 'd[a]te >>daemon' /proc/[0-9]*/cmdline")
		assert.Equal(t, len(w.read(t, "daemon")), size)
	})
}

// A sandbox whose processes are used up by what others have left comes back with the
// next command, as soon as no other command works in it.
func TestFullSandboxIsRestarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.configureUser(t, "[sandbox.resources]\npids = 64\n")
		w.plan(t, task{ID: "a", Title: "Add one", Steps: []string{"touch one"}})
		name := w.sandbox(t).Name
		fill := func() {
			run(t, w.docker("exec", name, "sh", "-c", "for i in $(seq 100); do setsid sleep 600 & done")) // the last one fails
		}
		said := "Sandbox " + name + " has reached its process limit (64): restarting it\n"
		restarted := func(command ...string) {
			t.Helper()
			fill()
			res := w.ralph(t, command...).expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, said))
			assert.Check(t, is.Contains(res.stdout, "a"))
			assert.Check(t, !strings.Contains(res.stdout+res.stderr, "runtime"), "%s%s", res.stdout, res.stderr)
		}
		restarted("task", "list")
		w.setenv("RALPH_GIT", "private") // which is looked at before
		w.ok(t, "--recreate", "task", "list")
		restarted("shell", "--", "echo", "a")
		restarted("build")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add one")

		// Another command works in it.
		other := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "mkfifo .ralph/done; touch beside; read x <.ralph/done"))
		appears(t, w.repo+"/beside")
		fill()
		res := w.ralph(t, "task", "list")
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, "sandbox "+name+" has reached its process limit (64), and another command is running in it\nHint: "))
		w.write(t, w.repo+"/.ralph/done", "\n")
		other.wait(t).expect(t, 0)
	})
}
