//go:build linux

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/abuse"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

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

// endTheSandbox are probes after which nothing is left that could report.
func endTheSandbox() []string { return []string{"fork-bomb", "memory-is-limited"} }

// The same attempts where the kernel is not the machine's, on the engine that
// has gVisor.
func TestAbuseOnGVisor(t *testing.T) {
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
		l, canary := abuseLab(t, w, program)
		secret, markers := newSecret(), newMarkers(t, w)
		found := abuseSandbox(t, w, append(l.variables(w, secret, markers, abuseMemory, abusePids), "YRANAC="+backwards(canary)), markers, endTheSandbox())
		skipped, broke := 0, 0
		for _, p := range probes {
			want := abuse.Held
			if _, other := otherKernel()[p.Name]; other {
				want = abuse.Broke
				broke++
			} else if slices.Contains(endTheSandbox(), p.Name) {
				want = abuse.Skipped
				skipped++
			}
			r := found[p.Name]
			assert.Check(t, is.Equal(r.Outcome, want), "%s: %s", p.Name, r.Why)
		}
		assert.Check(t, is.Equal(len(found), len(probes)))
		assert.Check(t, is.Equal(skipped, len(endTheSandbox())))
		assert.Check(t, is.Equal(broke, len(otherKernel())))
		assert.Check(t, !l.left.heard(secret), "a packet left the engine's machine")
		gVisorKnowsNames(t, w)
		gVisorStaysClosed(t, w, l)
		gVisorEnds(t, w)
	})
	if tried == 0 {
		notHere(t, "no engine has the runtime "+gVisor)
	}
}

// gVisorKnowsNames asserts that programs that know nothing of proxies are led to
// the proxy.
func gVisorKnowsNames(t *testing.T, w *world) {
	t.Helper()
	c := w.container(t)
	proxy := c.Config.Labels[labelPrefix+"proxy"]
	assert.Assert(t, proxy != "")
	said := run(t, w.docker("exec", c.ID, "getent", "hosts", "allowed.example")).expect(t, 0).stdout
	assert.DeepEqual(t, strings.Fields(said), []string{proxy, "allowed.example"})
	run(t, w.docker("exec", c.ID, "getent", "hosts", "blocked.example")).expect(t, 2)
}

// gVisorStaysClosed asserts that nothing gets out without the proxy, nor after a
// restart by hand, and that the next command mends it.
func gVisorStaysClosed(t *testing.T, w *world, l *lab) {
	t.Helper()
	r := restarted{w: w, lab: l, name: w.sandbox(t).Name}
	run(t, w.docker("kill", r.name+".egress")).expect(t, 0)
	r.holds(t, r.byHand(t))
	run(t, w.docker("restart", "-t", "1", r.name)).expect(t, 0)
	r.holds(t, r.byHand(t))
	w.ok(t, "task", "list")
	r.holds(t, r.byHand(t))
	gVisorKnowsNames(t, w)
}

// gVisorEnds asserts that an agent which uses up what there is ends its sandbox,
// and nothing else, and that the next command works.
func gVisorEnds(t *testing.T, w *world) {
	t.Helper()
	for what, step := range map[string]string{
		"memory":    `perl -e '$x = "x" x (600 << 20)'`,
		"processes": `perl -e 'for (;;) { my $p = fork; exit 7 if !defined $p; if (!$p) { sleep 1000; exit } }'`,
	} {
		w.plan(t, task{ID: what, Title: "Use up the " + what, Steps: []string{step}})
		res := w.ralph(t, "build", "-n", "1")
		assert.Check(t, res.code != 0, what)
		assert.Check(t, is.Contains(res.stderr, "Warning: the sandbox "+w.sandbox(t).Name+" has ended ("), what)
		w.ok(t, "task", "delete", what)
	}
}
