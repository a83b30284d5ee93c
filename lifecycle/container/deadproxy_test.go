package container_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// hold opens a connection to the proxy, says so, and waits for its end.
const hold = `use Socket; socket($s, PF_INET, SOCK_STREAM, 0);
	connect($s, pack_sockaddr_in(3128, inet_aton($ARGV[0]))) or die; send($s, "GET http://", 0);
	open($f, ">", "held"); close $f; sysread($s, $x, 1); open($f, ">", "ended"); close $f`

// Without the proxy, connections fail soon, with and without proxy settings.
func TestDeadProxyFailsFast(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
		sb, spec := isolated(t, s, egress.Allowlist, "*.allowed.example=10.0.0.0/8")
		secret := nonce()
		ask := func(name string) string { return "git ls-remote https://" + name + ".allowed.example/x 2>&1; true" }
		unfiltered := "env -u HTTPS_PROXY -u https_proxy "
		sh(t, s.Driver, sb, spec, fmt.Sprintf("perl -e '%s' %s >/dev/null 2>&1 & until test -e held; do :; done", hold, sb.Proxy))
		// The name is allowed, but does not exist.
		assert.Check(t, is.Contains(sh(t, s.Driver, sb, spec, ask("before")), "response 502"))
		assert.Check(t, is.Contains(sh(t, s.Driver, sb, spec, unfiltered+"getent hosts before.allowed.example"), sb.Proxy))

		_, err := e.Client(t).ContainerKill(t.Context(), sb.Name+".egress", client.ContainerKillOptions{Signal: "KILL"})
		assert.NilError(t, err)
		for _, tc := range []struct{ name, command, want string }{
			{"git", ask(secret), "unable to access"},
			{"git by name", unfiltered + ask(secret), "Could not resolve host"},
			{"a name", unfiltered + "getent hosts " + secret + ".allowed.example; true", ""},
			{"a connection", "until test -e ended; do :; done", ""},
			{"past the proxy", fmt.Sprintf("perl -e '%s' 'tcp %s %d' 'udp %s %d %s' 'dns %s.example.com'", attempts, m.addrs[0], m.port, m.addrs[0], m.port, secret, secret), ""},
		} {
			// By the clock inside: a busy engine takes its time to start anything.
			out := sh(t, s.Driver, sb, spec, "began=$(date +%s%N); "+tc.command+"; echo; echo $(($(date +%s%N) - began))")
			end := strings.LastIndex(strings.TrimSpace(out), "\n") + 1
			n, err := strconv.ParseInt(strings.TrimSpace(out[end:]), 10, 64)
			out = out[:end]
			assert.NilError(t, err, out)
			took := time.Duration(n)
			t.Logf("%s: %s", tc.name, took)
			assert.Check(t, took < 15*time.Second, "%s took %s", tc.name, took)
			assert.Check(t, is.Contains(out, tc.want), tc.name)
			assert.Check(t, is.Len(open(out), 0), tc.name)
			assert.Check(t, !strings.Contains(out, "200"), out)
		}
		assert.Check(t, !m.udp.contains(secret), "a packet came to the host")
		assert.Check(t, !left.contains(secret), "a packet left the host")
	})
}
