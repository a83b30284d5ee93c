package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

// show answers with what came.
func show() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s host=%s body=%q\n", r.Method, r.RequestURI, r.Host, body)
		_ = r.Header.Write(w)
		for name, values := range r.Trailer {
			_, _ = fmt.Fprintln(w, "trailer", name, values)
		}
	})
}

func TestPlainHTTP(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "port.example:8080"})
	l.servePlain(t, "allowed.example:80", show())
	l.servePlain(t, "port.example:8080", show())
	l.servePlain(t, "blocked.example:80", show())
	client := l.client(t)

	t.Run("an allowed host", func(t *testing.T) {
		response, err := client.Post("http://allowed.example/a%2fb?q=1;2", "text/plain", strings.NewReader("body"))
		assert.NilError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(string(body), `POST /a%2fb?q=1;2 host=allowed.example body="body"`))
		assert.Assert(t, !strings.Contains(string(body), "X-Forwarded"), string(body))
		l.waitStats(t, "allowed.example", func(h egress.HostStats) bool {
			return h.Sent >= int64(len("body")) && h.Received == int64(len(body)) && h.Allowed == 1
		})
	})
	t.Run("another port", func(t *testing.T) {
		_, body := get(t, client, "http://port.example:8080/")
		assert.Assert(t, cmp.Contains(body, "host=port.example:8080"))
	})
	t.Run("refused", func(t *testing.T) {
		status, body := get(t, client, "http://blocked.example/x?secret=1")
		assert.Equal(t, status, 403)
		assert.Assert(t, strings.HasPrefix(body, "docker ralph: blocked blocked.example:80 (not in allowlist)."), body)
		assert.Assert(t, !strings.Contains(l.log.String(), "secret"), "the log has hosts only")
	})
	t.Run("a port that was not allowed", func(t *testing.T) {
		status, body := get(t, client, "http://allowed.example:8080/")
		assert.Equal(t, status, 403)
		assert.Assert(t, cmp.Contains(body, "docker ralph network allow allowed.example:8080"))
	})
}

func TestPlainHTTPTricks(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	var requests atomic.Int64
	l.servePlain(t, "allowed.example:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		show().ServeHTTP(w, r)
	}))
	for _, tc := range []struct{ name, send, want, not string }{
		{
			name: "a smuggled Host",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: blocked.example\r\nConnection: close\r\n\r\n",
			want: "host=allowed.example", not: "blocked",
		},
		{
			name: "two Hosts",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nHost: blocked.example\r\n\r\n",
			want: "HTTP/1.1 400",
		},
		{
			name: "a user in the URL",
			send: "GET http://allowed.example@blocked.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
			want: "HTTP/1.1 403",
		},
		{
			name: "a NUL in the URL",
			send: "GET http://blocked.example\x00.allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
			want: "HTTP/1.1 400",
		},
		{
			name: "headers for one hop",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic x\r\nKeep-Alive: 5\r\nX-Stays: 1\r\n\r\n",
			want: "X-Stays: 1", not: "X-Hop",
		},
		{
			name: "credentials for the proxy",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nProxy-Authorization: Basic x\r\n\r\n",
			want: "HTTP/1.1 200", not: "Proxy-Authorization",
		},
		{
			name: "an upgrade",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET http://x/ HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n",
			want: "HTTP/1.1 200", not: "h2c",
		},
		{
			name: "https in plain",
			send: "GET https://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
			want: "HTTP/1.1 400",
		},
		{
			name: "no proxy request",
			send: "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
			want: "this is a proxy",
		},
		{
			name: "1 MB of header",
			send: "GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
			want: "HTTP/1.1 431",
		},
		{
			name: "an address",
			send: "GET http://[::ffff:169.254.169.254]/ HTTP/1.1\r\nHost: x\r\n\r\n",
			want: "HTTP/1.1 403",
		},
		{
			name: "neither HTTP nor anything",
			send: "\x16\x03\x01\x00\x05hello\r\n\r\n",
			want: "HTTP/1.1 400",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := rawAnswer(t, l.at.Proxy, tc.send)
			assert.Assert(t, cmp.Contains(answer, tc.want))
			assert.Assert(t, tc.not == "" || !strings.Contains(answer, tc.not), answer)
		})
	}
	t.Run("chunked and length", func(t *testing.T) {
		before := requests.Load()
		answer := rawAnswer(t, l.at.Proxy, "POST http://allowed.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+
			"0\r\n\r\nGET http://allowed.example/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
		assert.Assert(t, !strings.Contains(answer, "smuggled"), answer)
		assert.Assert(t, requests.Load()-before <= 1, "one request became two")
	})
}

// rawAnswer sends bytes that may be refused half way.
func rawAnswer(t *testing.T, listener net.Listener, send string) string {
	t.Helper()
	conn := dial(t, listener)
	go func() { _, _ = io.WriteString(conn, send) }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	assert.NilError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	return answer.Proto + " " + answer.Status + "\n" + string(body)
}

func TestByHost(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.servePlain(t, "allowed.example:80", show())
	client := l.transparentClient(t, l.at.HTTP)
	status, body := get(t, client, "http://allowed.example/x")
	assert.Equal(t, status, 200)
	assert.Assert(t, cmp.Contains(body, "GET /x host=allowed.example"))
	status, body = get(t, client, "http://blocked.example/")
	assert.Equal(t, status, 403)
	assert.Assert(t, cmp.Contains(body, "docker ralph network allow blocked.example"))

	for _, host := range []string{"", "allowed.example:8080", "user@allowed.example", "203.0.113.10", "a b"} {
		answer := rawAnswer(t, l.at.HTTP, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		assert.Assert(t, strings.Contains(answer, " 400 ") || strings.Contains(answer, " 403 "), "%q: %s", host, answer)
	}
	answer := rawAnswer(t, l.at.HTTP, "CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
	assert.Assert(t, cmp.Contains(answer, " 400 "))
}

func TestAnswersAreFlushed(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	next := make(chan struct{})
	l.servePlain(t, "allowed.example:80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8") // one that is known is held back by default
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "two\n")
	}))
	response, err := l.client(t).Get("http://allowed.example/")
	assert.NilError(t, err)
	defer func() { _ = response.Body.Close() }()
	reader := bufio.NewReader(response.Body)
	line, err := reader.ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "one\n")
	close(next)
	line, err = reader.ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "two\n")
}

func FuzzPlainTarget(f *testing.F) {
	for _, seed := range []string{
		"GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: a:80\r\n\r\n",
		"GET http://[::1]/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT allowed.example:443 HTTP/1.1\r\n\r\n", "GET http:x HTTP/1.1\r\nHost: y\r\n\r\n",
	} {
		f.Add(seed)
	}
	policy := egress.Policy{Mode: egress.AllowAll}
	f.Fuzz(func(t *testing.T, request string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return
		}
		host, port, err := plainTarget(r)
		if err != nil {
			return
		}
		if v := policy.Decide(host, port); v.Allowed && !v.Literal {
			again, err := egress.Normalise(v.Host)
			assert.NilError(t, err)
			assert.Equal(t, again, v.Host)
		}
	})
}

func FuzzSplitTarget(f *testing.F) {
	for _, seed := range []string{"allowed.example:443", "[::1]:443", "a:b:c", ":", "]:1", "[:1", "user@host:1", "a:+1", "a:00443"} {
		f.Add(seed)
	}
	policy := egress.Policy{Mode: egress.Allowlist, Rules: []egress.Entry{{Rule: egress.Rule{Host: "allowed.example"}}}}
	f.Fuzz(func(t *testing.T, target string) {
		host, port, err := splitTarget(target)
		if err != nil || !policy.Decide(host, port).Allowed {
			return
		}
		lower := strings.ToLower(target)
		assert.Assert(t, strings.HasPrefix(strings.Trim(lower, "["), "allowed.example"), "%q is allowed", target)
		assert.Assert(t, port == 443 || port == 80)
	})
}
