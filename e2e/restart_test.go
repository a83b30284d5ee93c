//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// Engines that are restarted, and rootless ones. Each test starts its own engine.

// ownEngine is an engine that no other test uses, so that it can be killed.
type ownEngine struct {
	engines.Engine
	args, env []string // of its daemon
	spaces    int      // a process that holds its namespaces
}

// newOwnEngine starts an engine of the same kind as another one.
func newOwnEngine(t *testing.T, like engines.Engine) *ownEngine {
	t.Helper()
	e := &ownEngine{Engine: startEngine(t, like.Name+"2")}
	daemon := daemonOf(t, e.Engine)
	assert.Assert(t, daemon != 0)
	e.args, e.env = readStrings(t, daemon, "cmdline"), readStrings(t, daemon, "environ")
	stat := readStrings(t, daemon, "stat")[0]
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var err error
	e.spaces, err = strconv.Atoi(fields[1]) // its parent
	assert.NilError(t, err)
	return e
}

// startEngine starts an engine of which there is one, with the base image. It
// ends with the test.
func startEngine(t *testing.T, name string) engines.Engine {
	t.Helper()
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can start and end an engine")
	}
	e := engines.Engine{Name: name, Host: "unix:///run/docker-ralph/" + name + ".sock"}
	lock := flock.New("/run/docker-ralph/" + name + ".test.lock")
	assert.NilError(t, lock.Lock())
	script := func(ctx context.Context, name string, args ...string) {
		out, err := exec.CommandContext(ctx, filepath.Join(shared.root, "scripts", name), args...).CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	t.Cleanup(func() {
		script(context.WithoutCancel(t.Context()), "engine.sh", "down", name)
		assert.Check(t, lock.Close())
	})
	script(t.Context(), "engine.sh", "up", name)
	script(t.Context(), "base-image.sh", engines.BaseImage(), e.Host)
	return e
}

// readStrings reads a file of a process that has strings in it.
func readStrings(t *testing.T, pid int, file string) []string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	assert.NilError(t, err)
	return strings.Split(strings.TrimRight(string(content), "\x00\n"), "\x00")
}

// daemonOf returns the process of an engine itself, or 0.
func daemonOf(t *testing.T, e engines.Engine) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "pids", "ralph-"+e.Name).Output()
	assert.NilError(t, err)
	for field := range strings.FieldsSeq(string(out)) {
		name, err := os.ReadFile("/proc/" + field + "/comm")
		if err != nil || string(name) != "dockerd\n" {
			continue // it has ended, or is something else
		}
		pid, err := strconv.Atoi(field)
		assert.NilError(t, err)
		return pid
	}
	return 0
}

// loopEnd ends the daemon, and nothing else.
func (e *ownEngine) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	pid := daemonOf(t, e.Engine)
	assert.Assert(t, pid != 0)
	assert.NilError(t, syscall.Kill(pid, sig))
	// The next one does not start as long as there is a process of that number,
	// even one that has ended and was not waited for yet.
	eventually(t, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return errors.New("the engine runs")
		}
		return nil
	})
}

// start starts the daemon again, with further arguments.
func (e *ownEngine) start(t *testing.T, more ...string) {
	t.Helper()
	args := []string{"--target", strconv.Itoa(e.spaces), "--mount", "--net", "--pid", "--"}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "nsenter", slices.Concat(args, e.args, more)...)
	cmd.Env, cmd.SysProcAttr = e.env, &syscall.SysProcAttr{Setsid: true}
	var said output.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	assert.NilError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	api := e.Client(t)
	eventually(t, func() error {
		select {
		case err := <-ended:
			t.Fatalf("the engine has ended: %v\n%s", err, said.String())
		default:
		}
		_, err := api.Ping(t.Context(), client.PingOptions{})
		return err
	})
}

// scriptedAgent are asked of an agent that does what it is asked.
type scriptedAgent struct {
	w      *world
	inside string // where it is asked, also while the engine does not answer
	n      int
}

// run has the agent run a script and returns its output. An empty script ends the
// agent.
func (q *scriptedAgent) run(t *testing.T, script string) string {
	t.Helper()
	q.n++
	file := func(name string) string { return filepath.Join(q.inside, name) }
	q.w.write(t, file("asking"), script)
	assert.NilError(t, os.Rename(file("asking"), file(fmt.Sprint("ask", q.n))))
	if script == "" {
		return ""
	}
	answer := fmt.Sprint("answer", q.n)
	waitForFile(t, file(answer))
	return q.w.readFile(t, file(answer))
}

// reset removes earlier scripts, for a new agent.
func (q *scriptedAgent) reset(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"ask*", "answer*"} {
		files, err := filepath.Glob(filepath.Join(q.inside, pattern))
		assert.NilError(t, err)
		for _, f := range files {
			assert.NilError(t, os.Remove(f))
		}
	}
	q.n = 0
}

// Isolation holds and no commit is lost when the engine is killed, stopped, or
// restarted with live restore.
func TestEngineRestart(t *testing.T) {
	t.Parallel()
	program := buildProbes(t)
	engines.Each(t, func(t *testing.T, like engines.Engine) {
		t.Parallel()
		e := newOwnEngine(t, like)
		w := newWorld(t, e.Engine)
		l := &lab{forbidden: publicAddress(t)}
		assert.NilError(t, server.Serve(t.Context(), l.forbidden))
		run(t, w.docker("run", "--rm", "-v", program+":/abuse:ro", engines.BaseImage(), "/abuse", "tcp", l.forbidden+":80")).expect(t, 0)
		w.setenv("RALPH_NETWORK", "allowlist")
		w.setenv("RALPH_ALLOW", "private.example=10.0.0.0/8")
		w.setenv("RALPH_WORKSPACE", "clone")
		w.plan(t, task{ID: "a", Title: "Try when asked", Steps: []string{scriptRunner}})
		w.createSandbox(t)
		l.program = w.installProbes(t, program)
		l.publish(t, w)
		r := restarted{engine: e, w: w, lab: l, name: w.sandbox(t).Name, agent: &scriptedAgent{w: w, inside: w.pathInside(t, ".ralph")}, task: "a"}

		r.work(t, "one")
		r.build.signalGroup(syscall.SIGKILL) // or else it would repair the sandbox
		r.build.wait(t)
		e.end(t, syscall.SIGKILL)
		// The containers still run.
		r.assertBlocked(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
		e.start(t)
		r.assertRestored(t, "one")

		r.work(t, "two")
		r.build.signalGroup(syscall.SIGKILL)
		r.build.wait(t)
		e.end(t, syscall.SIGTERM)
		e.start(t)
		r.assertRestored(t, "two")

		r.work(t, "killed")
		e.end(t, syscall.SIGKILL)
		r.assertBlocked(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
		r.assertContinues(t, "killed")

		r.work(t, "stopped")
		e.end(t, syscall.SIGTERM)
		r.assertContinues(t, "stopped", "--live-restore")

		// An engine with live restore.
		r.work(t, "three")
		e.end(t, syscall.SIGKILL)
		e.start(t, "--live-restore")
		r.build.stderr.WaitFor(t, "Reconnected: following the loop\n")
		r.assertBlocked(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
		r.assertBlocked(t, r.tryInContainer(t))
		w.ok(t, "shell", "--", "true")
		r.assertAllowed(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
		r.agent.run(t, "")
		res := r.build.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Reconnected: following the loop\n"))
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "three")
	})
}

// restarted is a sandbox whose engine is restarted.
type restarted struct {
	engine *ownEngine
	w      *world
	lab    *lab
	name   string
	agent  *scriptedAgent
	task   string
	build  *process
}

// work starts an agent, and has it make a commit that is not fetched.
func (r *restarted) work(t *testing.T, subject string) {
	t.Helper()
	r.agent.reset(t)
	r.w.ok(t, "task", "update", r.task, "--status", "open")     // runs that were lost count as failed
	r.build = start(t, r.w.docker("ralph", "build", "-n", "2")) // one run is lost
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("build of %s:\n%s\n%s", subject, r.build.stdout.String(), r.build.stderr.String())
		}
	})
	said := r.agent.run(t, "echo "+subject+" >"+subject+".txt && git add "+subject+".txt && git commit -qm "+subject+" && echo COMMITTED")
	assert.Assert(t, is.Contains(said, "COMMITTED"))
	r.publishAgain(t)
	r.assertAllowed(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
	assert.Check(t, r.w.git(t, "log", "-1", "--format=%s") != subject)
}

// publishAgain makes the server one that a new proxy reaches, too.
func (r *restarted) publishAgain(t *testing.T) {
	t.Helper()
	run(t, r.w.docker("start", r.lab.server)).expect(t, 0)
	res := run(t, r.w.docker("network", "connect", r.lab.server+"-private", r.name+".egress"))
	assert.Assert(t, res.code == 0 || strings.Contains(res.stderr, "already exists"), res.stderr)
}

// attempt are a script that tries the ways out, with an allowed one among them.
func (r *restarted) attempt(proxy string) string {
	program := filepath.Join(r.w.repo, ".ralph", "abuse")
	return program + " tcp " + r.lab.forbidden + ":80 && echo OPEN; " +
		program + " udp " + r.lab.forbidden + ":53 x && echo OPEN; " +
		program + " dns udp " + r.lab.forbidden + ":53 x.example. A && echo OPEN; " +
		program + " say " + proxy + ` 'GET http://blocked.example/ HTTP/1.1\r\nHost: blocked.example\r\n\r\n' served && echo OPEN; ` +
		program + " say " + proxy + ` 'GET http://private.example/ HTTP/1.1\r\nHost: private.example\r\n\r\n' served && echo ALLOWED`
}

// tryInContainer makes the attempts in a container that the user has started.
func (r *restarted) tryInContainer(t *testing.T) string {
	t.Helper()
	c := r.w.container(t)
	proxy := c.Config.Labels[labelPrefix+"proxy"]
	assert.Assert(t, proxy != "")
	said := run(t, r.w.docker("exec", r.name, "sh", "-c", r.attempt(proxy+":3128"))).stdout
	assert.Assert(t, strings.Count(said, "\n") >= 5, said) // each attempt prints a line
	return said
}

func (r *restarted) assertBlocked(t *testing.T, said string) {
	t.Helper()
	assert.Check(t, !strings.Contains(said, "OPEN"), said)
}

func (r *restarted) assertAllowed(t *testing.T, said string) {
	t.Helper()
	r.assertBlocked(t, said)
	assert.Check(t, is.Contains(said, "ALLOWED"))
}

// assertRestored asserts that the sandbox has ended with its engine, that nothing gets
// out of it when it is started by hand, and that the next command repairs it.
func (r *restarted) assertRestored(t *testing.T, subject string) {
	t.Helper()
	c := r.w.container(t)
	assert.Assert(t, !c.State.Running)
	run(t, r.w.docker("start", r.name)).expect(t, 0)
	said := r.tryInContainer(t)
	r.assertBlocked(t, said)
	assert.Check(t, !strings.Contains(said, "ALLOWED"), said)

	r.w.ok(t, "shell", "--", "true")
	assert.Assert(t, is.Contains(strings.Split(r.w.git(t, "log", "--all", "--format=%s"), "\n"), subject)) // a killed run is not accepted
	assert.Equal(t, r.w.git(t, "status", "--porcelain"), "")
	r.publishAgain(t)
	said = r.tryInContainer(t)
	r.assertAllowed(t, said)
}

// assertContinues starts an engine under a command that waits for it, and asserts that the
// loop is restarted with the same isolation, and that no commit was lost.
func (r *restarted) assertContinues(t *testing.T, subject string, more ...string) {
	t.Helper()
	r.build.stderr.WaitFor(t, "Warning: the engine does not answer: waiting for it\n")
	r.agent.reset(t)
	r.engine.start(t, more...)
	r.assertBlocked(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
	r.publishAgain(t)
	r.assertAllowed(t, r.agent.run(t, r.attempt("${https_proxy#http://}")))
	r.agent.run(t, "")
	res := r.build.wait(t).expect(t, 0)
	r.task = "after-" + subject
	r.w.plan(t, task{ID: r.task, Title: "Try when asked", Steps: []string{scriptRunner}})
	assert.Check(t, is.Contains(res.stderr, ": repairing it and resuming the loop\n"))
	assert.Assert(t, is.Contains(strings.Split(r.w.git(t, "log", "--all", "--format=%s"), "\n"), subject)) // a killed run is not accepted
	assert.Equal(t, r.w.git(t, "status", "--porcelain"), "")
}

// A rootless engine supports everything but limits, where it has no cgroups. Root inside
// is the user outside.
func TestRootlessEngine(t *testing.T) {
	t.Parallel()
	onlyInMatrix(t)
	w := newWorld(t, startEngine(t, "rootless"))
	w.useDefaults()
	w.setenv("RALPH_ALLOW", "near.invalid")
	w.plan(t,
		task{ID: "a", Title: "Work", Steps: []string{"id -u >who; echo made >made; touch /usr/mine 2>root; true"}},
		task{ID: "b", Title: "Reach out", Steps: []string{reachStep("far.invalid", "far"), reachStep("near.invalid", "near")}},
	)
	res := w.ralph(t, "build", "-n", "2").expect(t, 0)
	assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s", "HEAD~2.."), "Work\nReach out")
	assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	w.assertOwnership(t)
	assert.Equal(t, w.read(t, "who"), "1000\n")
	assert.Check(t, is.Contains(w.read(t, "root"), "Read-only file system"))
	assert.Check(t, is.Contains(w.read(t, "far"), refusedByProxy))
	assert.Check(t, is.Contains(w.read(t, "near"), hostNotFound))
	assert.Check(t, is.Contains(res.stderr, "blocked: far.invalid:443 ×1"))

	// A sandbox in use is not recreated.
	id := w.container(t).ID
	anew := w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 0)
	assert.Check(t, w.container(t).ID != id)
	info, err := w.engine.Client(t).Info(t.Context(), client.InfoOptions{})
	assert.NilError(t, err)
	limited := info.Info.CgroupVersion != "1" && info.Info.CgroupDriver != "none"
	assert.Equal(t, strings.Contains(anew.stderr, "Warning: this rootless engine cannot limit memory"), !limited)
	w.plan(t, slowTask())
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	waitForFile(t, w.pathInside(t, "begun"))
	refused := w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 1)
	assert.Check(t, is.Contains(refused.stderr, "a command is running in it"))
	w.write(t, w.pathInside(t, "go"), "")
	build.wait(t).expect(t, 0)

	checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), 0)
	assert.Equal(t, summary(checks), allPassed)
}
