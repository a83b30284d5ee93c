//go:build unix

package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
)

// Loops on engines of other machines, over a slow link that breaks.

// ticking is a step that takes as many seconds, prints each, and commits a file.
func ticking(seconds, file string) string {
	return "for i in $(seq " + seconds + "); do echo tick $i; sleep 1; done; echo done >" + file + " && git add " + file + " && git commit -qm '" + file + "'"
}

// awaitOutput waits until a process has printed a text.
func awaitOutput(t *testing.T, p *process, text string) {
	t.Helper()
	eventually(t, func() error {
		if said := p.stdout.String() + p.stderr.String(); !strings.Contains(said, text) {
			return fmt.Errorf("not printed: %sbut:\n%s", text, said)
		}
		return nil
	})
}

// assertOnce asserts that each file was committed once, and nothing else.
func (w *world) assertOnce(t *testing.T, files ...string) {
	t.Helper()
	assert.DeepEqual(t, strings.Split(w.git(t, "log", "--reverse", "--format=%s"), "\n"), append([]string{"first"}, files...))
	assert.Equal(t, w.git(t, "status", "--porcelain"), "")
}

// With a Docker context, everything works as on this machine: loops, lists, logs, shells,
// limits, and cleaning up. The worktree is cloned without being asked for.
func TestRemoteLoop(t *testing.T) {
	remoteWorlds(t, func(t *testing.T, w *world, link *slowlink.Link) {
		w.useDefaults()
		w.createContext(t, "big")
		w.setenv("DOCKER_CONTEXT", "big")
		w.plan(
			t,
			task{ID: "a", Title: "Add a", Steps: []string{"echo a > a.txt && git add a.txt && git commit -qm a.txt"}},
			task{ID: "b", Title: "Add b", Priority: 2, Steps: []string{"echo from the agent; cat a.txt > b.txt && git add b.txt && git commit -qm b.txt"}},
		)
		res := w.ralph(t, "--memory", "512m", "build").expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "2 commits of the sandbox are on your branch main"))
		w.assertOnce(t, "a.txt", "b.txt")
		assert.Equal(t, w.read(t, "b.txt"), "a\n")
		assert.Equal(t, w.container(t).HostConfig.Memory, int64(512<<20))

		assert.Check(t, is.Contains(w.ok(t, "ls"), "big"))
		assert.Check(t, is.Contains(w.ok(t, "logs"), "from the agent"))
		assert.Check(t, is.Contains(w.ok(t, "status"), "2 done"))
		assert.Equal(t, w.ok(t, "shell", "--", "cat", "b.txt"), "a\n")
		blocked := w.ralph(t, "shell", "--", "sh", "-c", "git ls-remote https://blocked.example/a/b.git").expect(t, 128)
		assert.Check(t, is.Contains(blocked.stderr, "blocked.example"))
		w.ok(t, "network", "ls")
		name := w.sandbox(t).Name
		used := w.ok(t, "system", "df", "-v")
		for _, item := range []string{name, "ralph-git-" + name, "ralph-clone-" + name} {
			assert.Check(t, is.Contains(used, " "+item+" "))
		}
		assert.Check(t, !strings.Contains(w.ok(t, "system", "prune", "--dry-run"), name))
		assertNoHostMounts(t, w)

		// Commands follow the sandbox without the context; another engine is an error.
		w.setenv("DOCKER_CONTEXT", "")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		w.ok(t, "stop")
		w.ok(t, "clean", "--force")
		assert.Equal(t, len(w.containers(t)), 0)
		for _, name := range w.volumes(t) {
			assert.Check(t, strings.HasPrefix(name, "ralph-cache-"), name)
		}
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
	})
}

// The backlog is read without the engine, and lines of output cost no round trip. Only new commits are sent,
// with their progress at a terminal.
func TestRemoteRoundTrips(t *testing.T) {
	remoteWorlds(t, func(t *testing.T, w *world, link *slowlink.Link) {
		w.useDefaults()
		w.plan(t, task{ID: "a", Title: "A", Steps: []string{"seq 3000; echo a > a.txt && git add a.txt && git commit -qm a.txt"}})
		w.createSandbox(t)
		before := link.Stats()
		w.ok(t, "task", "list")
		stats := link.Stats().Since(before)
		assert.Check(t, stats.Connections == 0 && stats.Sent+stats.Received < 500, "%+v", stats) // an earlier connection can still end
		w.ok(t, "build", "-n", "1")
		stats = link.Stats().Since(before)
		t.Logf("build with 3000 lines: %+v", stats)
		assert.Check(t, stats.RoundTrips < 600, "%+v", stats)

		random := make([]byte, 8<<20)
		_, _ = rand.Read(random)
		w.write(t, filepath.Join(w.repo, "large"), string(random))
		w.git(t, "add", "large")
		w.git(t, "commit", "-qm", "large")
		link.SetBandwidth(2 << 20)
		tm := w.terminal(t, w.docker("ralph", "shell", "--", "true"))
		sending := tm.wait(t).expect(t, 0).stdout
		assert.Check(t, is.Contains(sending, "\x1b[KSending commits ["))
		assert.Check(t, is.Contains(sending, "=>] 100%"))
		link.SetBandwidth(0)
		w.git(t, "commit", "-q", "--allow-empty", "-m", "small")
		before = link.Stats()
		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "Sending"), res.stderr)
		stats = link.Stats().Since(before)
		assert.Check(t, stats.Sent < 200<<10, "%+v", stats)
	})
}

// A loop goes on when its connection is cut, ssh is killed or the client sleeps. The command follows it
// again. Ctrl+C ends the wait only, and another command attaches.
func TestRemoteLoopSurvivesACut(t *testing.T) {
	remoteWorlds(t, func(t *testing.T, w *world, link *slowlink.Link) {
		w.useDefaults()
		const away = "Warning: the engine does not answer: waiting for it\n"
		steps := "echo step 1; until [ -e /tmp/go ]; do sleep 0.2; done; " + ticking("1", "a.txt")
		w.plan(t, task{ID: "a", Title: "A", Steps: []string{steps}}, task{ID: "b", Title: "B", Priority: 2, Steps: []string{ticking("1", "b.txt")}})
		build := start(t, w.docker("ralph", "build"))
		awaitOutput(t, build, "step 1\n")
		w.killSSH(t)
		build.signalGroup(syscall.SIGSTOP)
		link.Cut()
		assert.NilError(t, link.Restore())
		build.signalGroup(syscall.SIGCONT)
		link.Cut()
		awaitOutput(t, build, away)
		assert.NilError(t, link.Restore())
		awaitOutput(t, build, "Reconnected: following the loop\n")
		link.Cut()
		eventually(t, func() error {
			if strings.Count(build.stderr.String(), away) < 2 {
				return errors.New("it does not wait again")
			}
			return nil
		})
		build.signalGroup(syscall.SIGINT)
		res := build.wait(t)
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, `lost the connection to the engine: "ralph build" may still be running in sandbox `))
		assert.Check(t, is.Contains(res.stderr, `Hint: attach to it with "docker ralph attach `))
		assert.NilError(t, link.Restore())

		attach := start(t, w.docker("ralph", "attach"))
		awaitOutput(t, attach, "step 1\n")
		w.ok(t, "shell", "--", "touch", "/tmp/go")
		res = attach.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "tick 1\n"))
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done", "b": "done"})
		w.assertOnce(t, "a.txt", "b.txt")

		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "echo started; exec sleep 1000"))
		awaitOutput(t, shell, "started\n")
		link.Cut()
		res = shell.wait(t)
		assert.NilError(t, link.Restore())
		assert.Check(t, res.code != 0)
		assert.Check(t, is.Contains(res.stderr, `lost the connection to the engine: "ralph shell" may still be running in sandbox `))
		assert.Check(t, is.Contains(res.stderr, `Hint: stop it with "docker ralph stop `))
	})
}

// killSSH kills the connections of the world through ssh, and the login that they share.
func (w *world) killSSH(t *testing.T) {
	t.Helper()
	if w.endpoint.certs != "" {
		return
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.endpoint.host, "ssh://"))
	assert.NilError(t, err)
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	assert.NilError(t, err)
	killed := 0
	for _, path := range all {
		content, err := os.ReadFile(path)
		args := strings.Split(string(content), "\x00")
		if err != nil || filepath.Base(args[0]) != "ssh" || !slices.Contains(args, port) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		assert.NilError(t, err)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		killed++
	}
	assert.Assert(t, killed > 0)
}

// A cut while commits are sent is not the death of a loop. It starts once.
func TestRemoteTransferContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, remoteEnginesFor(t)[0])
	link := w.connectTLS(t)
	w.useDefaults()
	w.plan(t, task{ID: "a", Title: "A", Steps: []string{ticking("1", "a.txt")}})
	w.ok(t, "shell", "--", "true") // the engine has the proxy's image
	random := make([]byte, 24<<20)
	_, _ = rand.Read(random)
	assert.NilError(t, os.WriteFile(filepath.Join(w.repo, "large"), random, 0o644))
	w.chown(t, filepath.Join(w.repo, "large"))
	w.git(t, "add", "large")
	w.git(t, "commit", "-qm", "large")
	before := link.Stats()
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if link.Stats().Since(before).Sent > 2<<20 {
			return poll.Success()
		}
		return poll.Continue("the commits are not sent")
	}, poll.WithDelay(time.Millisecond), poll.WithTimeout(3*time.Minute))
	link.Cut()
	awaitOutput(t, build, "Warning: the engine does not answer: waiting for it\n")
	assert.NilError(t, link.Restore())
	res := build.wait(t).expect(t, 0)
	assert.Check(t, is.Contains(res.stderr, "Reconnected: "))
	assert.Check(t, is.Contains(res.stdout, "tick 1\n"))
	w.assertOnce(t, "large", "a.txt")
}

// A cut while the commits of a loop that has ended are fetched is waited for, until an interrupt: then
// the next command fetches.
func TestRemoteFetchContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, remoteEnginesFor(t)[0])
	link := w.connectTLS(t)
	w.useDefaults()
	w.createSandbox(t)
	sandbox := w.sandbox(t)
	cutFetch := func(id string) *process {
		t.Helper()
		commit := "echo done >" + id + ".txt; git add -A; git commit -qm " + id + ".txt"
		shell := start(t, w.docker("ralph", "shell", "--", "sh", "-c", "echo step "+id+"; until [ -e /tmp/"+id+" ]; do sleep 0.2; done; "+commit))
		awaitOutput(t, shell, "step "+id+"\n")
		w.inside(t, "touch", "/tmp/"+id).expect(t, 0)
		_, unlock, err := hostgit.Lock(t.Context(), filepath.Join(w.config, "ralph", "locks", sandbox.Name+".git"))
		assert.NilError(t, err)
		defer unlock()
		awaitOutput(t, shell, "Fetching commits from sandbox "+sandbox.Name+"\n") // and waiting for the lock
		link.Cut()
		unlock()
		awaitOutput(t, shell, "Warning: the engine does not answer: waiting for it\n")
		return shell
	}
	shell := cutFetch("a")
	assert.NilError(t, link.Restore())
	assert.Check(t, is.Contains(shell.wait(t).expect(t, 0).stderr, "Reconnected: fetching commits\n"))
	w.assertOnce(t, "a.txt")

	shell = cutFetch("b")
	shell.signalGroup(syscall.SIGINT)
	res := shell.wait(t).expect(t, 1)
	assert.Check(t, is.Contains(res.stderr, "Error: commits stay in sandbox "+sandbox.Name+": "))
	assert.NilError(t, link.Restore())
	w.ok(t, "shell", "--", "true")
	w.assertOnce(t, "a.txt", "b.txt")
}

// A loop ends its run without its client. The next commands name it, let it go on, and fetch it.
func TestRemoteLoopSurvivesItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, remoteEnginesFor(t)[0])
	w.connectTLS(t)
	w.useDefaults()
	w.plan(t, task{ID: "a", Title: "A", Steps: []string{"echo step 1; until [ -e /tmp/go ]; do sleep 0.2; done; " + ticking("1", "a.txt")}})
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	awaitOutput(t, build, "step 1\n")
	build.signalGroup(syscall.SIGKILL)
	build.wait(t)
	shell := w.ralph(t, "shell", "--", "true").expect(t, 0)
	assert.Check(t, is.Contains(shell.stderr, `is still running`))
	attach := start(t, w.docker("ralph", "attach"))
	awaitOutput(t, attach, "step 1\n")
	w.ok(t, "shell", "--", "touch", "/tmp/go")
	assert.Check(t, is.Contains(attach.wait(t).expect(t, 0).stdout, "tick 1\n"))
	assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "done"})
	w.assertOnce(t, "a.txt")
}

// A connection that hangs, as after a laptop was asleep, is given up. A loop that has ended
// meanwhile is reported.
func TestRemoteLoopSurvivesAFrozenConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, remoteEnginesFor(t)[0])
	link := w.connectTLS(t)
	w.useDefaults()
	w.plan(t, task{ID: "a", Title: "A", Steps: []string{ticking("5", "a.txt")}})
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	awaitOutput(t, build, "tick 2\n")
	link.Freeze()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(build.stderr.String(), "Warning: the engine does not answer: waiting for it\n") {
			return poll.Success()
		}
		return poll.Continue("it waits for an answer")
	}, poll.WithTimeout(3*time.Minute))
	assert.NilError(t, link.Restore())
	res := build.wait(t).expect(t, 0)
	assert.Check(t, is.Contains(res.stdout, "tick 5\n"))
	w.assertOnce(t, "a.txt")
}

// The real Claude Code works on another machine. Its key stays with the proxy there.
func TestClaudeOnAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, remoteEnginesFor(t)[0])
	base := claudeBase(t, w)
	api, url := w.serveModel(t, [][]modelapi.Turn{w.buildTurns("shop/01", "one")})
	w.connectSSH(t)
	w.useDefaults()
	const key = "sk-ant-e2e-on-another-machine"
	w.setenv("ANTHROPIC_BASE_URL", url)
	w.setenv("ANTHROPIC_API_KEY", key)
	claude := func(args ...string) result {
		return w.ralph(t, append([]string{"--agent", "claude", "--base", base}, args...)...)
	}
	claude("task", "create", "shop/01", "Add one").expect(t, 0)
	res := claude("build", "-n", "1").expect(t, 0)
	assert.Check(t, is.Contains(res.stderr, "1 commit of the sandbox is on your branch main"))
	assert.Check(t, len(api.Requests()) > 0)
	for _, r := range api.Requests() {
		assert.Equal(t, r.Key, key)
	}
	assert.Assert(t, is.Contains(w.git(t, "show", "--stat", "--format="), "one"))
	assertNoHostMounts(t, w)
}
