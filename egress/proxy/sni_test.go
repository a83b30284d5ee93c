package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

// transparentClient has no proxy settings: DNS directs it to the proxy.
func (l *lab) transparentClient(tb testing.TB, to net.Listener) *http.Client {
	tb.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.Addr().String())
		},
		TLSClientConfig:   &tls.Config{RootCAs: l.ca, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestServerName(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "inside.example", "other.example:8443", "down.example"})
	l.serveTLS(t, "allowed.example", hello("hello"))
	l.point("inside.example", "192.168.1.1")

	t.Run("an allowed host, over HTTP/2", func(t *testing.T) {
		status, body := get(t, l.transparentClient(t, l.at.TLS), "https://allowed.example/")
		assert.Equal(t, status, 200)
		assert.Equal(t, body, "hello HTTP/2.0 allowed.example")
		d := l.lastDecision(t)
		assert.Equal(t, d.Via, "sni")
		assert.Equal(t, d.Decision, egress.Allowed)
	})
	for _, tc := range []struct{ name, host, why string }{
		{"another host", "blocked.example", "not in allowlist"},
		{"a host for another port", "other.example", "port 443 not in allowlist"},
		{"a name that only ends alike", "evilallowed.example", "not in allowlist"},
		{"no name", "", errNoName.Error()},
		{"an address, which has no name", "203.0.113.10", errNoName.Error()},
		{"a name that leads inside", "inside.example", "192.168.1.1, which is private"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tls.Client(dial(t, l.at.TLS), &tls.Config{ServerName: tc.host, InsecureSkipVerify: true}).Handshake()
			assert.ErrorContains(t, err, "access denied")
			d := l.lastDecision(t)
			assert.Equal(t, d.Decision, egress.Refused)
			assert.Assert(t, cmp.Contains(d.Why, tc.why))
		})
	}
	t.Run("a host that is down", func(t *testing.T) {
		err := tls.Client(dial(t, l.at.TLS), &tls.Config{ServerName: "down.example"}).Handshake()
		assert.ErrorContains(t, err, "access denied")
	})
	t.Run("plain text", func(t *testing.T) {
		assert.Equal(t, exchange(t, l.at.TLS, "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n"), accessDenied)
		assert.Equal(t, l.lastDecision(t).Why, "not TLS")
	})
	t.Run("silence", func(t *testing.T) {
		assert.Equal(t, exchange(t, newLab(t, nil, withShortHelloTimeout).at.TLS, ""), accessDenied)
	})
}

func TestInvalidServerNamesAreRejected(t *testing.T) {
	for _, name := range []string{"evil\x00.allowed.example", "allowed.example/x", "0xcb00710a"} {
		l := newLab(t, []string{"allowed.example", "*.allowed.example"})
		conn := dial(t, l.at.TLS)
		hello := clientHello(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		_, err := conn.Write(hello)
		assert.NilError(t, err)
		answer, _ := io.ReadAll(conn)
		assert.Equal(t, string(answer), accessDenied)
	}
}

func TestReadHello(t *testing.T) {
	whole := clientHello(t, &tls.Config{ServerName: "allowed.example"})
	name, read, err := readHello(&slowReader{data: append(whole, "more"...)})
	assert.NilError(t, err)
	assert.Equal(t, name, "allowed.example")
	assert.Assert(t, len(read) >= len(whole) && string(read[:len(whole)]) == string(whole), "nothing is lost")

	_, _, err = readHello(&endless{})
	assert.ErrorContains(t, err, "TLS")
}

// slowReader gives a few bytes at a time.
type slowReader struct{ data []byte }

func (r *slowReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(3, len(p))], r.data)
	r.data = r.data[n:]
	return n, nil
}

// endless sends handshake records for ever.
type endless struct{ sent int }

func (r *endless) Read(p []byte) (int, error) {
	record := []byte{0x16, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}
	for i := range p {
		p[i] = record[r.sent%len(record)]
		r.sent++
	}
	return len(p), nil
}

func FuzzReadHello(f *testing.F) {
	for _, name := range []string{"allowed.example", "a", ""} {
		whole := clientHello(f, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		f.Add(whole)
		f.Add(whole[:len(whole)/2])
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x16, 3, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		name, read, err := readHello(&slowReader{data: data})
		assert.Assert(t, len(read) <= len(data) && string(read) == string(data[:len(read)]), "what was read is not what was sent")
		assert.Assert(t, (err == nil) == (name != ""), "%q and %v", name, err)
	})
}
