package container_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/conformance"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	driver "github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// isolated makes a sandbox with a network policy.
func isolated(t *testing.T, s conformance.Suite, mode egress.Mode, hosts ...string) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	spec := s.NewSpec(t)
	spec.Egress.Policy.Mode = mode
	for _, host := range hosts {
		rule, err := egress.ParseRule(host)
		assert.NilError(t, err)
		spec.Egress.Policy.Rules = append(spec.Egress.Policy.Rules, egress.Entry{Rule: rule, Origin: "test"})
	}
	spec.ReadOnly = true
	return s.UpWith(t, spec), spec
}

// try makes attempts in a sandbox, as the agent would.
func try(t *testing.T, d lifecycle.Driver, sb lifecycle.Sandbox, spec lifecycle.Spec, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := d.Exec(t.Context(), sb, lifecycle.Process{
		ID: "try", Args: append([]string{"perl", "-e", attempts}, args...), Dir: spec.Root, Stdout: &out, Stderr: &out,
	})
	assert.Check(t, err)
	assert.Check(t, is.Equal(code, 0), out.String())
	return out.String()
}

// waysOut are those that lead somewhere from an ordinary container.
func waysOut(m *machine, secret string) []string {
	args := []string{"dns " + secret + ".example.com"}
	for _, a := range m.addrs {
		args = append(args, fmt.Sprintf("tcp %s %d", a, m.port), fmt.Sprintf("device %s %d", a, m.port), fmt.Sprintf("udp %s %d %s", a, m.port, secret))
	}
	return args
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, api, m, left := newSuite(t, e), e.Client(t), newMachine(t, e), tap(t)
		sb, spec := isolated(t, s, egress.Allowlist, "allowed.example=10.0.0.0/8")
		other, otherSpec := isolated(t, s, egress.Deny)

		t.Run("the control finds ways out", func(t *testing.T) {
			secret := nonce()
			args := waysOut(m, secret)
			found := open(plain(t, api, args...))
			for _, a := range args {
				if kind, _, _ := strings.Cut(a, " "); kind == "tcp" || kind == "device" {
					assert.Check(t, is.Contains(found, a))
				}
			}
			m.udp.await(t, secret)
			left.await(t, secret)
		})
		t.Run("no way out", func(t *testing.T) {
			secret := nonce()
			args := append(waysOut(m, secret),
				"tcp "+sb.Proxy+" 22", "udp "+sb.Proxy+" 5353 "+secret,
				"tcp 169.254.169.254 80", "device 169.254.169.254 80", "tcp 203.0.113.1 443", "tcp 1.1.1.1 53", "udp 1.1.1.1 53 "+secret,
				"tcp 2606:4700:4700::1111 443", "tcp fe80::1 22", "dns example.com")
			began := time.Now()
			assert.Check(t, is.Len(open(try(t, s.Driver, sb, spec, args...)), 0))
			assert.Check(t, time.Since(began) < 10*time.Second, "refusals come at once")
			assert.Check(t, !m.udp.contains(secret), "a packet came to the host")
			assert.Check(t, !left.contains(secret), "a packet left the host")
		})
		serve(t, api, sb.Name+".egress", "allowed.example", "blocked.example")
		t.Run("the proxy is the way", func(t *testing.T) {
			out := try(t, s.Driver, sb, spec,
				"dns allowed.example", "dns blocked.example",
				"web "+sb.Proxy+" GET http://allowed.example/", "web "+sb.Proxy+" GET http://blocked.example/", "web "+sb.Proxy+" CONNECT blocked.example:443")
			assert.Equal(t, out, strings.ReplaceAll(`dns allowed.example: 1
dns blocked.example: 0
web PROXY GET http://allowed.example/: HTTP/1.1 200 OK
web PROXY GET http://blocked.example/: HTTP/1.1 403 Forbidden
web PROXY CONNECT blocked.example:443: HTTP/1.1 403 Forbidden
`, "PROXY", sb.Proxy))
		})
		t.Run("what is allowed later is allowed at once", func(t *testing.T) {
			began := time.Now().Add(-time.Minute)
			d := s.Driver.(*driver.Driver)
			ask := []string{"web " + sb.Proxy + " GET http://blocked.example/"}
			control := func(order ...string) (string, error) {
				answer, err := d.Control(t.Context(), sb, order...)
				return string(answer), err
			}
			_, err := control("allow", "blocked.example=10.0.0.0/8")
			assert.NilError(t, err)
			assert.Check(t, is.Contains(try(t, s.Driver, sb, spec, ask...), "200 OK"))
			_, err = control("deny", "blocked.example")
			assert.NilError(t, err)
			assert.Check(t, is.Contains(try(t, s.Driver, sb, spec, ask...), "403 Forbidden"))
			_, err = control("allow", "no host")
			assert.ErrorContains(t, err, "invalid host name")
			stats, err := control("stats")
			assert.NilError(t, err)
			assert.Check(t, is.Contains(stats, "blocked.example"))

			var log bytes.Buffer
			assert.NilError(t, d.Decisions(t.Context(), sb, began, false, &log))
			refused := 0
			for line := range strings.Lines(log.String()) {
				var said egress.Decision
				if json.Unmarshal([]byte(line), &said) == nil && said.Host == "blocked.example" && said.Decision == egress.Refused && said.Via == "http" {
					refused++
				}
			}
			assert.Check(t, refused >= 2, log.String())
		})
		t.Run("deny leads nowhere", func(t *testing.T) {
			out := try(t, s.Driver, other, otherSpec, "web "+other.Proxy+" GET http://allowed.example/")
			assert.Check(t, is.Contains(out, "403 Forbidden"))
		})
		t.Run("without the proxy there is nothing", func(t *testing.T) {
			_, err := api.ContainerKill(t.Context(), sb.Name+".egress", client.ContainerKillOptions{Signal: "KILL"})
			assert.NilError(t, err)
			ask := "web " + sb.Proxy + " GET http://allowed.example/"
			out := try(t, s.Driver, sb, spec, ask, "tcp "+m.addrs[0].String()+" "+fmt.Sprint(m.port))
			assert.Check(t, is.Contains(out, ask+": \n"))
			assert.Check(t, is.Len(open(out), 0))
			_, err = api.ContainerStart(t.Context(), sb.Name+".egress", client.ContainerStartOptions{})
			assert.NilError(t, err)
			out = try(t, s.Driver, sb, spec, ask)
			assert.Check(t, is.Contains(out, ask+": \n"), "a proxy without a policy blocks everything")

			again := repaired(t, s.Driver, spec)
			out = try(t, s.Driver, again, spec, "web "+sb.Proxy+" GET http://blocked.example/", "dns allowed.example")
			assert.Check(t, is.Contains(out, "403 Forbidden"))
			assert.Check(t, is.DeepEqual(open(out), []string{"dns allowed.example"}))
		})
		closed := func(t *testing.T, sb lifecycle.Sandbox) {
			t.Helper()
			secret := nonce()
			began := time.Now()
			assert.Check(t, is.Len(open(try(t, s.Driver, sb, spec, waysOut(m, secret)...)), 0))
			assert.Check(t, time.Since(began) < 5*time.Second, "the firewall is there")
			assert.Check(t, !m.udp.contains(secret) && !left.contains(secret))
		}
		t.Run("isolation survives a restart of the sandbox", func(t *testing.T) {
			restart(t, api, sb.ID)
			found, err := s.Driver.Lookup(t.Context(), spec.Name)
			assert.NilError(t, err)
			assert.Assert(t, s.Driver.Ready(found, spec))
			closed(t, found)
		})
		t.Run("a sandbox with a way out is not used", func(t *testing.T) {
			_, err := api.NetworkDisconnect(t.Context(), "none", client.NetworkDisconnectOptions{Container: other.ID, Force: true})
			assert.NilError(t, err)
			_, err = api.NetworkConnect(t.Context(), "bridge", client.NetworkConnectOptions{Container: other.ID})
			assert.NilError(t, err)
			_, err = ensure(t, s.Driver, otherSpec, false)
			assert.ErrorContains(t, err, "is connected to network bridge")
		})
		t.Run("removal is complete", func(t *testing.T) {
			assert.NilError(t, s.Driver.Remove(t.Context(), sb))
			assert.Check(t, is.Len(remaining(t, api, sb.Name), 0))

			remove(t, api, other.ID) // by hand
			d := s.Driver.(*driver.Driver)
			removed, err := d.SweepOrphans(t.Context(), time.Hour)
			assert.NilError(t, err)
			assert.Check(t, !slices.Contains(removed, other.Name+".egress"), "it may belong to a sandbox that is being made")
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				// Others are making sandboxes on this engine.
				if _, err := d.SweepOrphans(t.Context(), 6*time.Second); err != nil {
					return poll.Error(err)
				}
				if left := remaining(t, api, other.Name); len(left) > 0 {
					return poll.Continue("left: %q", left)
				}
				return poll.Success()
			}, poll.WithTimeout(30*time.Second), poll.WithDelay(time.Second))
		})
	})
}

// repaired asserts that a part of a sandbox was restarted, and repairs it.
func repaired(t *testing.T, d lifecycle.Driver, spec lifecycle.Spec) lifecycle.Sandbox {
	t.Helper()
	found, err := d.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.Assert(t, !d.Ready(found, spec), "it was restarted")
	sb, err := ensure(t, d, spec, false)
	assert.NilError(t, err)
	assert.Equal(t, sb.ID, found.ID)
	found, err = d.Lookup(t.Context(), spec.Name)
	assert.NilError(t, err)
	assert.Assert(t, d.Ready(found, spec))
	return sb
}

// restart restarts a container at once.
func restart(t *testing.T, api *client.Client, id string) {
	t.Helper()
	_, err := api.ContainerRestart(t.Context(), id, client.ContainerRestartOptions{Timeout: new(int)})
	assert.NilError(t, err)
}

// remaining lists what there is of a sandbox.
func remaining(t *testing.T, api *client.Client, name string) []string {
	t.Helper()
	mine := make(client.Filters).Add("label", "io.github.docker-ralph.sandbox="+name)
	containers, err := api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: mine})
	assert.NilError(t, err)
	networks, err := api.NetworkList(t.Context(), client.NetworkListOptions{Filters: mine})
	assert.NilError(t, err)
	volumes, err := api.VolumeList(t.Context(), client.VolumeListOptions{Filters: mine})
	assert.NilError(t, err)
	var left []string
	for _, v := range volumes.Items {
		if strings.HasPrefix(v.Name, "ralph-") {
			left = append(left, v.Name)
		}
	}
	for _, c := range containers.Items {
		left = append(left, c.Names...)
	}
	for _, n := range networks.Items {
		left = append(left, n.Name)
	}
	return left
}

func TestAllowAllBlocksLocalNetworks(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s, m, left := newSuite(t, e), newMachine(t, e), tap(t)
		public := m.publish(t, e)
		neighbour := publicNetwork(t, e)
		sb, spec := isolated(t, s, egress.AllowAll)
		assert.Equal(t, sb.Proxy, "")

		secret := nonce()
		reached := fmt.Sprintf("tcp %s %d", public, m.port)
		args := append(waysOut(m, secret), "tcp 169.254.169.254 80", "udp "+e.Gateway+" 53 not"+secret, "tcp fe80::1 22", fmt.Sprintf("tcp %s %d", neighbour, m.port), reached)
		assert.Check(t, is.DeepEqual(open(try(t, s.Driver, sb, spec, args...)), []string{reached}))
		left.await(t, secret) // the engine's resolver asks for names
		assert.Check(t, !m.udp.contains(secret) && !left.contains("not"+secret))

		// A restart, and a command that is not a dispatch's.
		assert.NilError(t, s.Driver.Stop(t.Context(), sb))
		assert.NilError(t, s.Driver.Start(t.Context(), sb))
		assert.Check(t, is.DeepEqual(open(try(t, s.Driver, sb, spec, args...)), []string{reached}))

		assert.NilError(t, s.Driver.Remove(t.Context(), sb))
		assert.Check(t, is.Len(remaining(t, e.Client(t), sb.Name), 0))
	})
}
