//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/abuse"
	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// The network isolation is restored when parts of it are taken away, and holds on
// gVisor.

// requests is a step that runs a script as often as it is asked to.
const scriptRunner = `n=0
while :; do
	n=$((n+1))
	while ! test -e .ralph/ask$n; do sleep 0.05; done
	script=$(cat .ralph/ask$n)
	test -n "$script" || exit 0
	sh -c "$script" >.ralph/answer 2>&1
	mv .ralph/answer .ralph/answer$n
done`

// A sandbox stays isolated when its proxy is killed or it is connected to a network
// while an agent works, and the command restores its network.
func TestIsolationSurvivesInterference(t *testing.T) {
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can give this machine the addresses of others")
	}
	program := buildProbes(t)
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		forbidden := publicAddress(t)
		assert.NilError(t, server.Serve(t.Context(), forbidden))
		w.setenv("RALPH_NETWORK", "allowlist")
		w.plan(t, task{ID: "a", Title: "Try when asked", Steps: []string{scriptRunner}})
		w.createSandbox(t)
		run(t, w.docker("run", "--rm", "-v", w.installProbes(t, program)+":/abuse:ro", engines.BaseImage(), "/abuse", "tcp", forbidden+":80")).expect(t, 0)
		const probe = ".ralph/abuse"
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		agent := scriptedAgent{w: w, inside: w.pathInside(t, ".ralph")}
		ask := func(script string) string { t.Helper(); return agent.run(t, script) }
		out := probe + " tcp " + forbidden + ":80 && echo OPEN; "
		through := probe + ` say ${https_proxy#http://} 'CONNECT far.invalid:443 HTTP/1.1\r\n\r\n' HTTP/ && echo ANSWERS`
		said := ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && strings.Contains(said, "ANSWERS"), said)
		name := w.sandbox(t).Name

		// The engine connects a sandbox without a network to no other one.
		refused := run(t, w.docker("network", "connect", "bridge", name)).expect(t, 1)
		assert.Check(t, is.Contains(refused.stderr, "none"))
		assert.Check(t, !strings.Contains(ask(out), "OPEN"))

		// Without the proxy nothing is reachable. The command restores it with its
		// policy.
		run(t, w.docker("kill", name+".egress")).expect(t, 0)
		assert.Check(t, !strings.Contains(ask(out+through), "OPEN"))
		build.stderr.WaitFor(t, "Warning: the network of sandbox "+name+" was interrupted: restored it")
		said = ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && strings.Contains(said, "403 Forbidden") && strings.Contains(said, "ANSWERS"), said)
		// Without its command, nothing is restored.
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		run(t, w.docker("kill", name+".egress")).expect(t, 0)
		said = ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && !strings.Contains(said, "ANSWERS"), said)
		ask("")
		w.ralph(t, "attach") // the loop waits for a command, or has ended
		eventually(t, func() error {
			if status := w.statuses(t)["a"]; status != "done" {
				return fmt.Errorf("the agent has not ended: its task is %s", status)
			}
			return nil
		})

		// Something is restarted by hand. What comes next closes everything again,
		// and what is refused is refused at once.
		for _, tc := range []struct{ task, restarted string }{{"b", name}, {"c", name + ".egress"}} {
			run(t, w.docker("restart", "-t", "1", tc.restarted)).expect(t, 0)
			w.plan(t, task{ID: tc.task, Title: "Try again", Steps: []string{"{ " + out + through + "; } >.ralph/said 2>&1"}})
			w.ok(t, "build")
			said = w.readFile(t, w.pathInside(t, ".ralph/said"))
			assert.Check(t, !strings.Contains(said, "OPEN") && !strings.Contains(said, "timeout") && strings.Contains(said, "ANSWERS"), said)
		}

		// A sandbox with another network is not used.
		run(t, w.docker("network", "disconnect", "--force", "none", name)).expect(t, 0)
		run(t, w.docker("network", "connect", "bridge", name)).expect(t, 0)
		rejected := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(rejected.stderr, `Hint: run "docker network disconnect bridge `+name+`"`))
		run(t, w.docker("network", "disconnect", "bridge", name)).expect(t, 0)
		w.createSandbox(t)
	})
}

// gVisor is what engines call the runtime whose kernel is a program.
const gVisor = "runsc"

// otherKernel are the probes that get through on gVisor, and why that is no way
// out: what they reach is a world of the sandbox's own, or is not there.
func otherKernel() map[string]string {
	const (
		missing = "the call is not filtered, and its kernel does not have it"
		own     = "it is the sandbox's own"
		unseen  = "the limit holds from outside, and is not shown inside"
	)
	return map[string]string{
		"perf-event-open": missing, "personality": missing, "new-cgroup-namespace": missing, "clone3": missing, "open-by-handle": missing, "real-time": missing,
		"seccomp-filter":            "the filter is around the kernel, not in it",
		"no-setuid-files":           "the same, so this holds on runc only",
		"no-devices-of-the-machine": own, "only-known-devices": own, "kernel-log": own, "new-user-namespace": own, "new-mount-namespace": own, "unshare-program": own,
		"own-control-group-only": own, "priority": own, "spared-by-the-oom-killer": own,
		"tmp-ignores-setuid":    "it does so without saying it: there are no new privileges",
		"processes-are-limited": unseen, "no-swap": unseen,
	}
}

// endTheirSandbox are probes after which nothing is left that could report.
func endTheirSandbox() []string { return []string{"fork-bomb", "memory-is-limited"} }

// The same attempts where the kernel is not the machine's, on the engine that
// has gVisor.
func TestAbuseOnGVisor(t *testing.T) {
	onlyInMatrix(t)
	t.Parallel()
	probes, err := abuse.Probes()
	assert.NilError(t, err)
	program := buildProbes(t)
	tried := 0
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		res, err := e.Client(t).Info(t.Context(), client.InfoOptions{})
		assert.NilError(t, err)
		if _, has := res.Info.Runtimes[gVisor]; !has {
			return
		}
		tried++
		w := newWorld(t, e)
		w.setenv("RALPH_RUNTIME", gVisor)
		l, canary := setUpProbes(t, w, program)
		secret, markers := newSecret(), newMarkers(t, w)
		found := probeSandbox(t, w, append(l.variables(w, secret, markers, abuseMemory, abusePids), "YRANAC="+reverse(canary)), markers, endTheirSandbox())
		skipped, broke := 0, 0
		for _, p := range probes {
			want := abuse.Held
			if _, other := otherKernel()[p.Name]; other {
				want = abuse.Broke
				broke++
			} else if slices.Contains(endTheirSandbox(), p.Name) {
				want = abuse.Skipped
				skipped++
			}
			r := found[p.Name]
			assert.Check(t, is.Equal(r.Outcome, want), "%s: %s", p.Name, r.Why)
		}
		assert.Check(t, is.Equal(len(found), len(probes)))
		assert.Check(t, is.Equal(skipped, len(endTheirSandbox())))
		assert.Check(t, is.Equal(broke, len(otherKernel())))
		assert.Check(t, !l.packets.Contains(secret), "a packet left the engine's machine")
		gVisorUsesProxy(t, w)
		gVisorIsIsolated(t, w, l)
		gVisorLimits(t, w)
	})
	if tried == 0 {
		skipOrFail(t, "no engine has the runtime "+gVisor)
	}
}

// gVisorUsesProxy asserts that programs without support for proxies reach the proxy.
func gVisorUsesProxy(t *testing.T, w *world) {
	t.Helper()
	c := w.container(t)
	proxy := c.Config.Labels[labelPrefix+"proxy"]
	assert.Assert(t, proxy != "")
	said := run(t, w.docker("exec", c.ID, "getent", "hosts", "allowed.example")).expect(t, 0).stdout
	assert.DeepEqual(t, strings.Fields(said), []string{proxy, "allowed.example"})
	run(t, w.docker("exec", c.ID, "getent", "hosts", "blocked.example")).expect(t, 2)
}

// gVisorIsIsolated asserts that nothing gets out without the proxy, nor after a
// restart by hand, and that the next command mends it.
func gVisorIsIsolated(t *testing.T, w *world, l *lab) {
	t.Helper()
	r := restarted{w: w, lab: l, name: w.sandbox(t).Name}
	run(t, w.docker("kill", r.name+".egress")).expect(t, 0)
	r.assertBlocked(t, r.tryInContainer(t))
	run(t, w.docker("restart", "-t", "1", r.name)).expect(t, 0)
	r.assertBlocked(t, r.tryInContainer(t))
	w.createSandbox(t)
	r.assertBlocked(t, r.tryInContainer(t))
	gVisorUsesProxy(t, w)
}

// gVisorLimits asserts that an agent which uses up what there is ends its sandbox,
// and nothing else, and that the next command works.
func gVisorLimits(t *testing.T, w *world) {
	t.Helper()
	for what, step := range map[string]string{
		"memory":    `perl -e '$x = "x" x (600 << 20)'`,
		"processes": `perl -e 'for (;;) { my $p = fork; exit 7 if !defined $p; if (!$p) { sleep 1000; exit } }'`,
	} {
		w.plan(t, task{ID: what, Title: "Use up the " + what, Steps: []string{step}})
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, res.code != 0, what)
		assert.Check(t, is.Regexp("Warning: sandbox "+w.sandbox(t).Name+" (was killed|ran out of memory|ended with)", res.stderr), what)
		w.ok(t, "task", "delete", what)
	}
}
