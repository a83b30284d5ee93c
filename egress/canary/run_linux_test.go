package canary_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress/canary"
)

const questionEnv = "CANARY_TEST_QUESTION"

// TestMain lets the test binary be the canary, in a network namespace.
func TestMain(m *testing.M) {
	if arg, ok := os.LookupEnv(questionEnv); ok {
		os.Exit(sing(arg))
	}
	os.Exit(m.Run())
}

func sing(arg string) int {
	q, err := canary.ParseQuestion(arg)
	if err == nil {
		var a canary.Answer
		//nolint:forbidigo // a program of its own has no caller
		if a, err = canary.Run(context.Background(), q); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(a)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Where everything is.
const (
	host  = "10.9.0.1"
	proxy = "10.9.0.2"
	own   = "10.9.0.5"
)

// lab is a sandbox's network with what is on the other end of it.
type lab struct{ sandbox, outside string }

func newLab(t *testing.T) lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	id := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	l := lab{"ralph-canary-in-" + id, "ralph-canary-out-" + id}
	ip(t, "netns", "add", l.sandbox)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.sandbox).Run() })
	ip(t, "netns", "add", l.outside)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.outside).Run() })
	ip(t, "-n", l.sandbox, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", l.outside)
	for ns, addrs := range map[string][]string{l.sandbox: {own}, l.outside: {proxy}} {
		ip(t, "netns", "exec", ns, "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
		ip(t, "-n", ns, "link", "set", "lo", "up")
		for _, a := range addrs {
			ip(t, "-n", ns, "addr", "add", a+"/24", "dev", "eth0")
		}
		ip(t, "-n", ns, "link", "set", "eth0", "up")
	}
	ip(t, "netns", "exec", l.outside, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all")
	for _, ns := range []string{l.sandbox, l.outside} { // until then the kernel drops packets
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			out, err := exec.CommandContext(t.Context(), "ip", "-n", ns, "-br", "link", "show", "eth0").Output()
			if fields := strings.Fields(string(out)); err == nil && len(fields) > 1 && fields[1] == "UP" {
				return poll.Success()
			}
			return poll.Continue("%s", out)
		}, poll.WithTimeout(20*time.Second), poll.WithDelay(20*time.Millisecond))
	}
	return l
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
	assert.NilError(t, err, "%q: %s", args, out)
}

// at calls f outside.
func (l lab) at(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		ns, err := os.Open("/run/netns/" + l.outside)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			_ = ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	assert.NilError(t, <-done)
}

// listen answers at an address outside.
func (l lab) listen(t *testing.T, address string, serve func(net.Conn)) {
	t.Helper()
	var ln net.Listener
	l.at(t, func() (err error) {
		ln, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp4", address)
		return err
	})
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if serve != nil {
					serve(conn)
				}
			}()
		}
	}()
}

// says answers a request with a status.
func says(status int) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status))
		}
	}
}

// resolver knows an address for every name, after some time.
func (l lab) resolver(t *testing.T, address, answer string, after time.Duration) {
	t.Helper()
	var pc net.PacketConn
	l.at(t, func() (err error) {
		pc, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", address)
		return err
	})
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response = true
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(answer).As4()},
			}}
			<-time.After(after)
			if reply, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(reply, from)
			}
		}
	}()
}

func (l lab) ask(t *testing.T, q canary.Question) canary.Answer {
	t.Helper()
	if q.Hosts == nil {
		q.Hosts = []netip.Addr{netip.MustParseAddr(host)}
	}
	if q.Wait == 0 {
		q.Wait = 400 * time.Millisecond
	}
	if q.Timeout == 0 {
		q.Timeout = 400 * time.Millisecond
	}
	arg, err := q.Encode()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", l.sandbox, os.Args[0])
	cmd.Env = append(os.Environ(), questionEnv+"="+arg)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	assert.NilError(t, err, complaint.String())
	a, err := canary.ParseAnswer(out)
	assert.NilError(t, err)
	return a
}

func TestRun(t *testing.T) {
	closed := canary.Question{Proxy: netip.MustParseAddr(proxy)}
	// A refusal must not come too late on a busy machine.
	patient := canary.Question{Proxy: closed.Proxy, Timeout: 10 * time.Second}
	hostIsThere := func(t *testing.T, l lab) { ip(t, "-n", l.outside, "addr", "add", host+"/24", "dev", "eth0") }
	for _, tc := range []struct {
		name     string
		question canary.Question
		prepare  func(t *testing.T, l lab)
		status   int // of the proxy, or 0 for none
		open     []string
		broken   string
	}{
		{name: "all is closed", question: closed, status: 403},
		{name: "the host refuses", question: closed, status: 403, prepare: hostIsThere, open: []string{host + ":22 answers", host + ":22 answers at eth0", host + " answers by UDP"}},
		{name: "only the firewall holds", prepare: hostIsThere},
		{name: "the host answers", question: closed, status: 403, open: []string{host + ":80 answers"}, prepare: func(t *testing.T, l lab) {
			hostIsThere(t, l)
			l.listen(t, host+":80", nil)
		}},
		{name: "ping", question: closed, status: 403, open: []string{"ping of " + host + " answers"}, prepare: func(t *testing.T, l lab) {
			hostIsThere(t, l)
			ip(t, "netns", "exec", l.outside, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_all")
			ip(t, "netns", "exec", l.sandbox, "sh", "-c", "echo '0 2147483647' >/proc/sys/net/ipv4/ping_group_range")
		}},
		{name: "metadata", question: closed, status: 403, open: []string{"169.254.169.254:80 answers at eth0"}, prepare: func(t *testing.T, l lab) {
			ip(t, "-n", l.outside, "addr", "add", "169.254.169.254/32", "dev", "eth0")
		}},
		{name: "a resolver", question: closed, status: 403, open: []string{"the resolver " + proxy + " knows example.com"}, prepare: func(t *testing.T, l lab) {
			l.resolver(t, proxy+":53", "203.0.113.1", 0)
		}},
		{name: "the proxy's resolver", question: closed, status: 403, prepare: func(t *testing.T, l lab) {
			l.resolver(t, proxy+":53", proxy, 0)
		}},
		{name: "IPv6", question: closed, status: 403, open: []string{"there is an IPv6 address"}, prepare: func(t *testing.T, l lab) {
			ip(t, "netns", "exec", l.sandbox, "sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6")
			ip(t, "-n", l.sandbox, "addr", "add", "fd00::5/64", "dev", "eth0", "nodad")
		}},
		{name: "the proxy lets everybody through", question: closed, status: 200, open: []string{"the proxy connects to 169.254.169.254:80"}},
		{name: "the proxy is ill", question: closed, status: 500, broken: "answers with status 500"},
		{name: "the proxy is not there", question: patient, broken: "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			if tc.prepare != nil {
				tc.prepare(t, l)
			}
			if tc.status != 0 {
				l.listen(t, proxy+":3128", says(tc.status))
			}
			a := l.ask(t, tc.question)
			for _, want := range tc.open {
				assert.Check(t, is.Contains(a.Open, want))
			}
			if tc.open == nil {
				assert.Check(t, is.Len(a.Open, 0))
			}
			if tc.broken == "" {
				assert.Check(t, is.Len(a.Broken, 0))
			} else {
				assert.Check(t, is.Contains(strings.Join(a.Broken, "\n"), tc.broken))
			}
		})
	}
}

// Attempts that the firewall has dropped are not awaited.
func TestOnlyUnblockedAttemptsAreAwaited(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		began := time.Now()
		a := l.ask(t, canary.Question{Wait: time.Minute})
		assert.Check(t, is.Len(a.Open, 0))
		assert.Check(t, time.Since(began) < 30*time.Second)
	})
	t.Run("a question", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		const far = "203.0.113.9"
		ip(t, "-n", l.outside, "addr", "add", far+"/32", "dev", "eth0")
		ip(t, "-n", l.sandbox, "route", "add", far, "dev", "eth0")
		l.resolver(t, far+":53", "203.0.113.1", 300*time.Millisecond)
		q := canary.Question{Hosts: []netip.Addr{netip.MustParseAddr(far)}, Wait: 5 * time.Second}
		assert.Check(t, is.Contains(l.ask(t, q).Open, far+" answers by UDP"))
		q.Near = []netip.Prefix{netip.MustParsePrefix(far + "/32")}
		assert.Check(t, is.Len(l.ask(t, q).Open, 0))
	})
}
