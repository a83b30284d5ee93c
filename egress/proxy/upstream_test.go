package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

// companyProxy is the one that the user's machine needs. It knows where hosts
// are by itself.
type companyProxy struct {
	lab *lab

	mu   sync.Mutex
	seen []string
}

func (c *companyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	c.mu.Unlock()
	if r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpzZWNyZXQ=" {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		_, _ = fmt.Fprintf(w, "company %s", r.RequestURI)
		return
	}
	c.lab.mu.Lock()
	address := c.lab.real[r.RequestURI]
	c.lab.mu.Unlock()
	host, err := net.Dial("tcp", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Company: yes\r\n\r\n")
	go func() { _, _ = io.Copy(host, rw); _ = host.Close() }()
	_, _ = io.Copy(conn, host)
	_ = conn.Close()
}

func (c *companyProxy) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

func withUpstream(scheme, password, no string) func(*Config) {
	address := egress.Secret(scheme + "://user:" + password + "@proxy.corp.example:3128")
	return func(c *Config) { c.Start.Upstream = egress.Upstream{HTTP: address, HTTPS: address, No: no} }
}

func TestUpstream(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			l := newLab(t, []string{"allowed.example", "inside.example", "direct.example"}, withUpstream(scheme, "secret", "direct.example"))
			company := &companyProxy{lab: l}
			server := httptest.NewUnstartedServer(company)
			if scheme == "https" {
				server.TLS = &tls.Config{Certificates: []tls.Certificate{l.certificate(t, "proxy.corp.example")}}
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			l.put("proxy.corp.example:3128", server.Listener)
			l.point("proxy.corp.example", "10.0.0.1") // where such proxies are
			l.serveTLS(t, "allowed.example", hello("hello"))
			l.serveTLS(t, "direct.example", hello("direct"))
			l.point("inside.example", "10.0.0.2")

			status, body := get(t, l.client(t), "https://allowed.example/")
			assert.Equal(t, status, 200)
			assert.Equal(t, body, "hello HTTP/2.0 allowed.example")
			status, body = get(t, l.transparentClient(t, l.at.TLS), "https://allowed.example/")
			assert.Equal(t, status, 200, body)
			_, body = get(t, l.client(t), "http://allowed.example/x")
			assert.Equal(t, body, "company http://allowed.example/x")
			assert.Equal(t, l.dialled("allowed.example:443")+l.dialled("allowed.example:80"), 0, "it went past the company's proxy")
			assert.Equal(t, len(company.requests()), 3)

			_, _ = get(t, l.client(t), "https://direct.example/")
			assert.Equal(t, l.dialled("direct.example:443"), 1)

			_, status, _ = connectTo(t, l, "blocked.example:443")
			assert.Equal(t, status, 403)
			_, status, body = connectTo(t, l, "inside.example:443")
			assert.Equal(t, status, 403)
			assert.Assert(t, cmp.Contains(body, "10.0.0.2, which is private"))
			status, _ = get(t, l.client(t), "http://inside.example/")
			assert.Equal(t, status, 403)
			assert.Equal(t, len(company.requests()), 3, "%v", company.requests())
			assert.Assert(t, !strings.Contains(l.log.String(), "secret"))
		})
	}
}

func TestUpstreamThatRefuses(t *testing.T) {
	l := newLab(t, []string{"allowed.example"}, withUpstream("http", "wrong-password", ""))
	company := httptest.NewServer(&companyProxy{lab: l})
	t.Cleanup(company.Close)
	l.put("proxy.corp.example:3128", company.Listener)
	_, status, body := connectTo(t, l, "allowed.example:443")
	assert.Equal(t, status, 502)
	assert.Assert(t, cmp.Contains(body, "asking the host's proxy: unexpected status 407"))
	assert.Assert(t, !strings.Contains(body+l.log.String(), "wrong-password"))

	m := newLab(t, []string{"allowed.example"}, withUpstream("http", "wrong-password", ""))
	_, status, body = connectTo(t, m, "allowed.example:443")
	assert.Equal(t, status, 502)
	assert.Assert(t, cmp.Contains(body, "reaching the host's proxy: connection refused"))
}

func TestUpstreamWithAnEndlessHeader(t *testing.T) {
	l := newLab(t, []string{"allowed.example"}, withUpstream("http", "secret", ""))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		for err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<16))
		}
	}()
	l.put("proxy.corp.example:3128", listener)
	_, status, body := connectTo(t, l, "allowed.example:443")
	assert.Equal(t, status, 502)
	assert.Assert(t, cmp.Contains(body, "too long"))
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	base := Config{Start: egress.Start{Policy: egress.Policy{Mode: egress.Deny}}}
	bad := base
	_, bad.Roots = newCA(t)
	bad.Start.CA = "not PEM"
	_, err := New(bad)
	assert.ErrorContains(t, err, "not certificates in PEM")
	bad = base
	bad.Start.Upstream.HTTP = "http://secret%zz"
	_, err = New(bad)
	assert.ErrorContains(t, err, "not a URL")
	assert.Assert(t, !strings.Contains(err.Error(), "secret"))
}
