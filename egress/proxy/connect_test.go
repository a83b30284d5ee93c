package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

// connectTo asks for a tunnel, and returns it or the answer's status and body.
func connectTo(tb testing.TB, l *lab, target string) (net.Conn, int, string) {
	tb.Helper()
	conn := dial(tb, l.at.Proxy)
	_, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	assert.NilError(tb, err)
	reader := bufio.NewReaderSize(&singleBytes{conn: conn, left: 1 << 20}, 16)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	assert.NilError(tb, err)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return conn, answer.StatusCode, ""
	}
	body, err := io.ReadAll(answer.Body)
	assert.NilError(tb, err)
	return nil, answer.StatusCode, string(body)
}

func TestConnect(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.serveTLS(t, "allowed.example", hello("hello"))
	l.serveTLS(t, "blocked.example", hello("never"))
	client := l.client(t)

	t.Run("an allowed host, over HTTP/2", func(t *testing.T) {
		status, body := get(t, client, "https://allowed.example/")
		assert.Equal(t, status, 200)
		assert.Equal(t, body, "hello HTTP/2.0 allowed.example")
		d := l.lastDecision(t)
		assert.Equal(t, d.Decision, egress.Allowed)
		assert.Equal(t, d.Host, "allowed.example")
		assert.Equal(t, d.Port, uint16(443))
		assert.Equal(t, d.Why, "test")
	})
	t.Run("in capitals, with a dot", func(t *testing.T) {
		status, _ := get(t, client, "https://ALLOWED.example./")
		assert.Equal(t, status, 200)
	})
	t.Run("another host", func(t *testing.T) {
		_, status, body := connectTo(t, l, "blocked.example:443")
		assert.Equal(t, status, 403)
		assert.Equal(t, body, "docker ralph: blocked blocked.example:443 (not in allowlist). "+
			"Allow it from the host with: docker ralph network allow blocked.example\n")
		d := l.lastDecision(t)
		assert.Equal(t, d.Decision, egress.Refused)
		assert.Equal(t, d.Hint, "blocked.example")
		assert.Equal(t, l.dialled("blocked.example:443"), 0)
	})
	t.Run("a host that does not answer", func(t *testing.T) {
		m := newLab(t, []string{"allowed.example"})
		_, status, body := connectTo(t, m, "allowed.example:443")
		assert.Equal(t, status, 502)
		assert.Equal(t, body, "docker ralph: allowed.example:443 is allowed, but cannot be reached: connection refused\n")
	})
}

func TestConnectTargets(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "*.wild.example", "ssh.example:22"})
	for _, target := range []string{
		"evil%00.allowed.example:443", "allowed.example.evil.test:443", "evilallowed.example:443",
		"allowed.example:22", "allowed.example:0", "allowed.example:65979", "allowed.example:0443x", "allowed.example",
		"wild.example:443", "evilwild.example:443",
		"0xcb007114:443", "3405803796:443", "203.0.113.10:443", "[::ffff:169.254.169.254]:443", "[::1]:443", "127.1:443",
		"user@allowed.example:443", "allowed.example@evil.test:443", "allowed.example:443@evil.test:443",
		"ssh.example:443", "*.wild.example:443", "a..wild.example:443", "-a.wild.example:443",
		"metadata.google.internal:80", "localhost:443", ":443",
	} {
		t.Run(target, func(t *testing.T) {
			answer := exchange(t, l.at.Proxy, "CONNECT "+target+" HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n")
			status, _, _ := strings.Cut(answer, "\r\n")
			assert.Assert(t, status == "HTTP/1.1 403 Forbidden" || strings.HasPrefix(status, "HTTP/1.1 400 "), answer)
		})
	}
	t.Run("with bytes that no URL has", func(t *testing.T) {
		for _, host := range []string{"evil\x00.allowed.example", "evil .allowed.example", "evil\x7f.allowed.example", "аllowed.example"} {
			answer := exchange(t, l.at.Proxy, "CONNECT "+host+":443 HTTP/1.1\r\nHost: x\r\n\r\n")
			assert.Assert(t, !strings.Contains(answer, " 200 "), answer)
		}
	})
	assert.Equal(t, len(l.dials), 0, "something was dialled: %v", l.dials)
}

func TestNamesThatLeadInside(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "db.example=10.0.0.0/8"})
	l.serveTLS(t, "allowed.example", hello("never"))
	l.serveTLS(t, "db.example", hello("database"))
	for _, tc := range []struct{ addr, why, hint string }{
		{"127.0.0.2", "it leads to 127.0.0.2, which is loopback", ""},
		{"169.254.169.254", "it leads to 169.254.169.254, which is link-local, where clouds keep their metadata", ""},
		{"203.0.113.99", "it leads to 203.0.113.99, which is the proxy itself", ""},
		{"10.0.0.7", "it leads to 10.0.0.7, which is private", "allowed.example=10.0.0.7"},
	} {
		t.Run(tc.addr, func(t *testing.T) {
			l.point("allowed.example", tc.addr)
			_, status, body := connectTo(t, l, "allowed.example:443")
			assert.Equal(t, status, 403)
			assert.Assert(t, cmp.Contains(body, tc.why))
			d := l.lastDecision(t)
			assert.Equal(t, d.Decision, egress.Refused)
			assert.Equal(t, d.Why, tc.why)
			assert.Equal(t, d.Hint, tc.hint)
			assert.Equal(t, l.dialled("allowed.example:443"), 0)

			status, body = get(t, l.client(t), "http://allowed.example/")
			assert.Equal(t, status, 403)
			assert.Assert(t, cmp.Contains(body, tc.why))
		})
	}
	t.Run("by a rule with a range", func(t *testing.T) {
		l.point("db.example", "10.1.2.3")
		status, _ := get(t, l.client(t), "https://db.example/")
		assert.Equal(t, status, 200)
		l.point("db.example", "192.168.1.1")
		_, status, _ = connectTo(t, l, "db.example:443")
		assert.Equal(t, status, 403)
	})
}

func TestConnectComparesTheServerName(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "also.example"})
	l.serveTLS(t, "allowed.example", hello("hello"))
	tunnel := func(t *testing.T) net.Conn {
		conn, status, body := connectTo(t, l, "allowed.example:443")
		assert.Equal(t, status, 200, body)
		return conn
	}
	refused := func(t *testing.T, conn net.Conn, why string) {
		answer, _ := io.ReadAll(conn)
		assert.Equal(t, string(answer), accessDenied)
		d := l.lastDecision(t)
		assert.Equal(t, d.Decision, egress.Refused)
		assert.Assert(t, cmp.Contains(d.Why, why))
	}

	t.Run("another name", func(t *testing.T) {
		conn := tunnel(t)
		err := tls.Client(conn, &tls.Config{ServerName: "blocked.example"}).Handshake()
		assert.ErrorContains(t, err, "access denied")
		assert.Assert(t, cmp.Contains(l.lastDecision(t).Why, `TLS for another host: "blocked.example"`))
	})
	t.Run("another name that is allowed itself", func(t *testing.T) {
		conn := tunnel(t)
		client := tls.Client(conn, &tls.Config{ServerName: "also.example", InsecureSkipVerify: true})
		assert.NilError(t, client.Handshake())
	})
	t.Run("no name", func(t *testing.T) {
		conn := tunnel(t)
		err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
		assert.ErrorContains(t, err, "access denied")
		assert.Assert(t, cmp.Contains(l.lastDecision(t).Why, errNoName.Error()))
	})
	t.Run("plain text", func(t *testing.T) {
		conn := tunnel(t)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n")
		assert.NilError(t, err)
		refused(t, conn, "not TLS")
	})
	t.Run("a ClientHello byte by byte", func(t *testing.T) {
		conn := tunnel(t)
		for _, b := range clientHello(t, &tls.Config{ServerName: "allowed.example"}) {
			_, err := conn.Write([]byte{b})
			assert.NilError(t, err)
		}
		first := make([]byte, 1)
		_, err := io.ReadFull(conn, first)
		assert.NilError(t, err)
		assert.Equal(t, first[0], byte(0x16), "the host answers the handshake")
	})
	t.Run("a ClientHello in many records", func(t *testing.T) {
		conn := tunnel(t)
		whole := clientHello(t, &tls.Config{ServerName: "blocked.example"})[5:]
		for len(whole) > 0 {
			n := min(20, len(whole))
			_, err := conn.Write(append([]byte{0x16, 3, 1, 0, byte(n)}, whole[:n]...))
			assert.NilError(t, err)
			whole = whole[n:]
		}
		refused(t, conn, "TLS for another host")
	})
	t.Run("the ClientHello comes with the CONNECT", func(t *testing.T) {
		hello := clientHello(t, &tls.Config{ServerName: "allowed.example"})
		conn := dial(t, l.at.Proxy)
		_, err := conn.Write(append([]byte("CONNECT allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"), hello...))
		assert.NilError(t, err)
		reader := bufio.NewReader(conn)
		line, err := reader.ReadString('\n')
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(line, "200"))
		_, err = reader.ReadString('\n')
		assert.NilError(t, err)
		first, err := reader.ReadByte()
		assert.NilError(t, err)
		assert.Equal(t, first, byte(0x16))
	})
}

func TestConnectWaitsForTLSButNotForEver(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "allowed.example:8443"}, withShortHelloTimeout)
	server := l.serveTLS(t, "allowed.example", hello("hello"))
	l.put("allowed.example:8443", server.Listener)
	for name, tc := range map[string]struct{ target, send string }{
		"silence":                      {"allowed.example:443", ""},
		"a ClientHello without an end": {"allowed.example:443", "\x16\x03\x01\x40\x00\x01\x00\xff\xff"},
		"the same on another port":     {"allowed.example:8443", "\x16\x03\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status, _ := connectTo(t, l, tc.target)
			assert.Equal(t, status, 200)
			_, err := io.WriteString(conn, tc.send)
			assert.NilError(t, err)
			_, err = io.ReadAll(conn)
			assert.Assert(t, err == nil || !isTimeout(err), "the tunnel is still open: %v", err)
			d := l.lastDecision(t)
			assert.Equal(t, d.Decision, egress.Refused)
			assert.Equal(t, d.Why, "no ClientHello in time")
		})
	}
}

func TestConnectToPort80SpeaksOfOneHost(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "also.example"})
	l.servePlain(t, "allowed.example:80", hello("hello"))
	l.servePlain(t, "also.example:80", hello("never"))
	ask := func(t *testing.T, host string) (int, string) {
		conn, status, _ := connectTo(t, l, "allowed.example:80")
		assert.Equal(t, status, 200)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		assert.NilError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		assert.NilError(t, err)
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		assert.NilError(t, err)
		return answer.StatusCode, string(body)
	}
	status, body := ask(t, "allowed.example")
	assert.Equal(t, status, 200)
	assert.Equal(t, body, "hello HTTP/1.1 allowed.example")
	for _, host := range []string{"blocked.example", "also.example"} {
		status, _ = ask(t, host)
		assert.Equal(t, status, 403)
	}
}

func TestTunnelsAreLimited(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.serveTLS(t, "allowed.example", hello("hello"))
	var places []slot
	for {
		place, ok := l.open.take()
		if !ok {
			break
		}
		places = append(places, place)
	}
	assert.Equal(t, len(places), maxTunnels)
	_, status, body := connectTo(t, l, "allowed.example:443")
	assert.Equal(t, status, 503)
	assert.Assert(t, cmp.Contains(body, "512 connections are open"))
	for _, place := range places {
		place.free()
	}
	status, _ = get(t, l.client(t), "https://allowed.example/")
	assert.Equal(t, status, 200)
}

func TestAllowAllStillChecks(t *testing.T) {
	l := newLab(t, nil, func(c *Config) { c.Start.Policy = egress.Policy{Mode: egress.AllowAll} })
	l.serveTLS(t, "any.example", hello("hello"))
	l.point("inside.example", "10.0.0.1")
	l.point("169.254.169.254", "169.254.169.254")
	l.point("172.17.0.1", "172.17.0.1")
	status, _ := get(t, l.client(t), "https://any.example/")
	assert.Equal(t, status, 200)
	for _, target := range []string{"inside.example:443", "169.254.169.254:80", "172.17.0.1:2375"} {
		conn, status, _ := connectTo(t, l, target)
		if target == "169.254.169.254:80" { // HTTP is spoken in the tunnel
			_, err := io.WriteString(conn, "GET /latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n")
			assert.NilError(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			assert.NilError(t, err)
			_ = answer.Body.Close()
			status = answer.StatusCode
		}
		assert.Equal(t, status, 403, target)
	}
}

// Programs that ignore NO_PROXY learn why the sandbox itself is not reached this way.
func TestLocalNamesAreRefused(t *testing.T) {
	asked := make(chan string, 10)
	l := newLab(t, nil, func(c *Config) {
		c.Start.Policy = egress.Policy{Mode: egress.AllowAll}
		c.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
			asked <- host
			return nil, nil
		}
	})
	for _, request := range []string{
		"CONNECT localhost:3000", "CONNECT sandbox:443", "CONNECT [::1]:8080", "CONNECT 127.0.0.1:80", "CONNECT ip6-localhost:80", "CONNECT localhost.localdomain:80", "GET http://shop.localhost/", "GET http://0.0.0.0:8000/",
	} {
		answer := exchange(t, l.at.Proxy, request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		assert.Check(t, strings.HasPrefix(answer, "HTTP/1.1 403 "), "%s: %s", request, answer)
		assert.Check(t, strings.Contains(answer, "the sandbox itself, which is reached without the proxy"), "%s: %s", request, answer)
		assert.Check(t, !strings.Contains(answer, "network allow"), "%s: %s", request, answer)
	}
	assert.Equal(t, len(l.dials)+len(asked), 0, "%v", l.dials)
}
