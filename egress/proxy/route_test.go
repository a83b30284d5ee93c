package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

const key = "sk-the-real-key"

func withRoutes(c *Config) {
	c.Start.Routes = []egress.Route{
		{
			Prefix: "/anthropic", Target: "https://allowed.example", Paths: []string{"/v1"},
			Headers: map[string]egress.Secret{"x-api-key": key},
		},
		{Prefix: "/openai", Target: "https://allowed.example/base/", Headers: map[string]egress.Secret{"Authorization": "Bearer " + key}},
		{
			Prefix: "/exact", Target: "https://allowed.example", Requests: []string{"POST /v1/messages", "GET /v1/models", "GET /v1/models/*"}, Paths: []string{"/v1/extra"},
			Headers: map[string]egress.Secret{"Authorization": "Bearer " + key},
		},
		{Prefix: "/only", Target: "https://allowed.example", Requests: []string{"POST /v1/messages", "GET /v1/models/*"}, Headers: map[string]egress.Secret{"Authorization": key}},
		{Prefix: "/own", Target: "http://allowed.example", Own: true, Headers: map[string]egress.Secret{"X-Api-Key": key}},
		{Prefix: "/gone", Target: "http://gone.example", Own: true, Headers: map[string]egress.Secret{"X-Api-Key": key}},
		{Prefix: "/refused", Target: "https://blocked.example", Headers: map[string]egress.Secret{"Authorization": key}},
		{Prefix: "/inside", Target: "https://inside.example", Headers: map[string]egress.Secret{"Authorization": key}},
		{Prefix: "/git", Target: "https://allowed.example/owner", GitReadOnly: true, Headers: map[string]egress.Secret{"Authorization": "Basic " + key}},
	}
}

func newRouteLab(t *testing.T, handler http.Handler) *lab {
	t.Helper()
	l := newLab(t, []string{"allowed.example", "inside.example"}, withRoutes)
	l.serveTLS(t, "allowed.example", handler)
	l.serveTLS(t, "blocked.example", handler)
	l.servePlain(t, "allowed.example:80", handler)
	l.point("inside.example", "10.0.0.1")
	t.Cleanup(func() { assert.Assert(t, !strings.Contains(l.log.String(), key), "the key is in the log") })
	return l
}

func (l *lab) routeURL(path string) string { return "http://" + l.at.Routes.Addr().String() + path }

func TestRoutesAddTheKey(t *testing.T) {
	l := newRouteLab(t, show())
	request := func(t *testing.T, method, path string, header http.Header) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, l.routeURL(path), strings.NewReader("prompt"))
		assert.NilError(t, err)
		for name, values := range header {
			r.Header[name] = values
		}
		response, err := http.DefaultClient.Do(r)
		assert.NilError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		return response.StatusCode, string(body)
	}
	t.Run("and take away what was sent", func(t *testing.T) {
		status, body := request(t, "POST", "/anthropic/v1/messages?beta=true&key=mine&KEY=mine&a;key=mine", http.Header{
			"X-Api-Key": {"mine", "mine too"}, "Authorization": {"Bearer mine"}, "Cookie": {"session=mine"},
			"X-Goog-Api-Key": {"mine"}, "Proxy-Authorization": {"mine"}, "Connection": {"X-Api-Key"}, "Anthropic-Version": {"2023-06-01"},
		})
		assert.Equal(t, status, 200)
		assert.Assert(t, cmp.Contains(body, `POST /v1/messages?beta=true host=allowed.example body="prompt"`))
		assert.Assert(t, cmp.Contains(body, "X-Api-Key: "+key))
		assert.Assert(t, cmp.Contains(body, "Anthropic-Version: 2023-06-01"))
		assert.Assert(t, !strings.Contains(body, "mine"), body)
		d := l.lastDecision(t)
		assert.Equal(t, d.Via, "route")
		assert.Equal(t, d.Host, "allowed.example")
		l.waitStats(t, "allowed.example", func(h egress.HostStats) bool { return h.Sent > 6 && h.Received == int64(len(body)) })
	})
	t.Run("account of the key", func(t *testing.T) {
		_, body := request(t, "POST", "/openai/responses", http.Header{
			"OpenAI-Organization": {"mine"}, "OpenAI_Project": {"mine"}, "Anthropic-Workspace-Id": {"mine"}, "Chatgpt-Account-Id": {"mine"},
		})
		assert.Assert(t, cmp.Contains(body, "Authorization: Bearer "+key))
		assert.Assert(t, !strings.Contains(body, "mine"), body)
	})
	for send, want := range map[string]int{
		"POST /v1/messages": 200, "POST /v1/messages?beta=true": 200, "GET /v1/models": 200, "GET /v1/models/claude-x": 200,
		"PUT /v1/extra/a": 200, "DELETE /v1/extra": 200,
		"POST /v1/messages/batches": 403, "GET /v1/messages/batches": 403, "POST /v1/messages/batches/x/cancel": 403, "POST /v1/messages%2fbatches": 403,
		"POST /v1/messages/": 403, "POST /v1//messages": 403, "GET /v1/messages": 403, "DELETE /v1/models/x": 403, "POST /v1/models": 403,
		"GET /v1/models/a/b": 403, "GET /v1/models/a%2fb": 403, "GET /v1/models/": 403, "HEAD /v1/models": 403, "GET /v1/files": 403,
		"POST /V1/messages": 403, "POST /v1/messages;x": 403, "POST /v1/messages/..%2fmessages": 403,
	} {
		method, path, _ := strings.Cut(send, " ")
		status, _ := request(t, method, "/exact"+path, nil)
		assert.Check(t, cmp.Equal(status, want), send)
	}
	t.Run("path that was compared", func(t *testing.T) {
		_, body := request(t, "POST", "/only/v1%2f%6dessages", nil)
		assert.Assert(t, cmp.Contains(body, "POST /v1/messages host=allowed.example"))
		_, body = request(t, "GET", "/only/v1/models/a%20b", nil)
		assert.Assert(t, cmp.Contains(body, "GET /v1/models/a%20b host=allowed.example"))
	})
	t.Run("headers that rewrite the request", func(t *testing.T) {
		sent := " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key, X-Other\r\nX-Kept_Here: kept\r\n"
		for _, name := range []string{
			"X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Forwarded-Prefix", "X-HTTP-Method-Override", "X-HTTP-Method",
			"X_Original_URL", "X_HTTP_Method-Override", "X_Api_Key", "x-api_key", "AUTHORIZATION", "Proxy_Authorization", "X-Forwarded-For", "Forwarded",
		} {
			sent += name + ": mine\r\n"
		}
		for _, prefix := range []string{"/anthropic", "/own"} { // by HTTP/2 and HTTP/1
			body := rawAnswer(t, l.at.Routes, "POST "+prefix+"/v1/messages"+sent+"\r\n6\r\nprompt\r\n0\r\nX-Api-Key: mine\r\nX-Other: mine\r\n\r\n")
			assert.Assert(t, cmp.Contains(body, `POST /v1/messages host=allowed.example body="prompt"`))
			assert.Assert(t, cmp.Contains(body, "X-Api-Key: "+key))
			assert.Assert(t, cmp.Contains(body, ": kept"), "a header that says nothing of that kind")
			assert.Assert(t, !strings.Contains(body, "mine"), body)
			assert.Assert(t, !strings.Contains(body, "X-Other"), "a trailer: %s", body)
		}
	})
	t.Run("below the path of the target", func(t *testing.T) {
		_, body := request(t, "GET", "/openai/v1/models/a%2fb", nil)
		assert.Assert(t, cmp.Contains(body, "GET /base/v1/models/a%2fb host=allowed.example"))
		assert.Assert(t, cmp.Contains(body, "Authorization: Bearer "+key))
	})
	for _, path := range []string{
		"/anthropic/v2/files", "/anthropic/v1evil", "/anthropic/", "/anthropic",
		"/anthropic/v1/../v2", "/anthropic/v1/%2e%2e/v2", "/anthropic/v1/..%2fv2", "/anthropic/v1/%252e%252e/v2",
		"/anthropic/v1/..;x/v2", `/anthropic/v1/..\v2`, "/anthropic/v1/%5c..%5cv2", "/anthropic/v1/./x",
		"/openai/../v1", "/openai/%2e%2e/v1", "/refused/v1", "/inside/v1",
	} {
		t.Run("not for "+path, func(t *testing.T) {
			answer := rawAnswer(t, l.at.Routes, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			assert.Assert(t, cmp.Contains(answer, " 403 "))
			assert.Assert(t, !strings.Contains(answer, key), answer)
			assert.Equal(t, l.lastDecision(t).Decision, egress.Refused)
		})
	}
	for _, send := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET //anthropic/v1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"TRACE /openai/v1 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://allowed.example/openai/v1 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		assert.Assert(t, cmp.Contains(rawAnswer(t, l.at.Routes, send), " 404 "), send)
	}
	answer := rawAnswer(t, l.at.Routes, "GET /unknown/v1 HTTP/1.1\r\nHost: x\r\n\r\n")
	assert.Assert(t, cmp.Contains(answer, " 503 "))
	assert.Assert(t, cmp.Contains(answer, "the proxy has no key for unknown. It keeps keys in memory only"))
	assert.Equal(t, l.dialled("blocked.example:443")+l.dialled("inside.example:443"), 0)
}

// A refused key, a wrong address and an unreachable target are in the log, for the
// user; other failures are the agent's business.
func TestRoutesReportFailures(t *testing.T) {
	l := newRouteLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(path.Base(r.URL.Path))
		w.WriteHeader(status)
	}))
	for _, tc := range []struct {
		method, path string
		want         string
	}{
		{"POST", "/anthropic/v1/401", "failed /anthropic 401 it answered 401 Unauthorized"},
		{"GET", "/anthropic/v1/403", "failed /anthropic 403 it answered 403 Forbidden"},
		{"POST", "/anthropic/v1/404", "allowed  0 test"},
		{"POST", "/anthropic/v1/529", "allowed  0 test"},
		{"POST", "/own/404", "failed /own 404 it answered 404 Not Found"},
		{"GET", "/own/404", "allowed  0 the endpoint that you have set"},
		{"POST", "/gone/v1", "failed /gone 0 connection refused"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, l.routeURL(tc.path), nil)
		assert.NilError(t, err)
		response, err := http.DefaultClient.Do(r)
		assert.NilError(t, err)
		_ = response.Body.Close()
		d := l.lastDecision(t)
		assert.Equal(t, fmt.Sprint(d.Decision, " ", d.Route, " ", d.Status, " ", d.Why), tc.want, tc.path)
	}
}

func TestRoutesForGitOnlyRead(t *testing.T) {
	l := newRouteLab(t, show())
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/git/repo.git/info/refs?service=git-upload-pack", 200},
		{"POST", "/git/repo.git/git-upload-pack", 200},
		{"GET", "/git/repo.git/info/refs?service=git-receive-pack", 403},
		{"GET", "/git/repo.git/info/refs?service=git-upload-pack&service=git-receive-pack", 403},
		{"GET", "/git/repo.git/info/refs", 403},
		{"POST", "/git/repo.git/git-receive-pack", 403},
		{"POST", "/git/repo/settings", 403},
		{"GET", "/git/repo/settings", 403},
		{"DELETE", "/git/repo.git/git-upload-pack", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, l.routeURL(tc.path), nil)
		assert.NilError(t, err)
		response, err := http.DefaultClient.Do(r)
		assert.NilError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, response.StatusCode, tc.status, "%s %s", tc.method, tc.path)
	}
}

// A route to one repository leads nowhere else on the host, and to pushing only
// where that was asked for.
func TestRoutesToOneRepository(t *testing.T) {
	of := func(prefix string, push bool) egress.Route {
		paths := []string{"/o/r.git/info/refs", "/o/r.git/git-upload-pack"}
		if push {
			paths = append(paths, "/o/r.git/git-receive-pack")
		}
		return egress.Route{
			Prefix: prefix, Target: "https://allowed.example", Paths: paths, GitReadOnly: !push, GitPush: push,
			Headers: map[string]egress.Secret{"Authorization": "Basic " + key},
		}
	}
	l := newLab(t, []string{"allowed.example"}, func(c *Config) { c.Start.Routes = []egress.Route{of("/read", false), of("/push", true)} })
	l.serveTLS(t, "allowed.example", show())
	const fetch, push = "?service=git-upload-pack", "?service=git-receive-pack"
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/read/o/r.git/info/refs" + fetch, 200},
		{"POST", "/read/o/r.git/git-upload-pack", 200},
		{"GET", "/read/o/r.git/info/refs" + push, 403},
		{"POST", "/read/o/r.git/git-receive-pack", 403},
		{"GET", "/push/o/r.git/info/refs" + fetch, 200},
		{"GET", "/push/o/r.git/info/refs" + push, 200},
		{"POST", "/push/o/r.git/git-upload-pack", 200},
		{"POST", "/push/o/r.git/git-receive-pack", 200},
		{"GET", "/push/o/r.git/info/refs" + fetch + "&service=git-receive-pack", 403},
		{"GET", "/push/o/r.git/info/refs?service=git-upload-archive", 403},
		{"GET", "/push/o/r.git/info/refs", 403},
		{"GET", "/push/o/r.git/git-receive-pack", 403},
		{"PUT", "/push/o/r.git/git-receive-pack", 403},
		{"POST", "/push/o/r.git/info/lfs/objects/batch", 403},
		{"POST", "/push/o/other.git/git-receive-pack", 403},
		{"GET", "/read/o/other.git/info/refs" + fetch, 403},
		{"GET", "/read/o/r.git2/info/refs" + fetch, 403},
		{"GET", "/read/o/r.git/../other.git/info/refs" + fetch, 403},
		{"GET", "/read/o/r.git/%2e%2e/other.git/info/refs" + fetch, 403},
		{"GET", "/read/o/r.git/..%2fother.git/info/refs" + fetch, 403},
		{"GET", "/read/o%2fr.git/info/refs" + fetch, 403},
		{"GET", "/read/o/r.git%2finfo/refs" + fetch, 403},
		{"GET", "/read/o/r.git/info%2Frefs" + fetch, 403},
		{"GET", "/read/o/r.git/info/refs%2f..%2f..%2f..%2fother.git/info/refs" + fetch, 403},
		{"GET", "/read//o/r.git/info/refs" + fetch, 403},
		{"GET", "/read/O/R.git/info/refs" + fetch, 403},
		{"GET", "/read/api/v3/user", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, l.routeURL(tc.path), nil)
		assert.NilError(t, err)
		r.SetBasicAuth("mine", "mine")
		r.Header.Set("Git-Protocol", "version=2")
		response, err := http.DefaultTransport.RoundTrip(r)
		assert.NilError(t, err)
		body, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, response.StatusCode, tc.status, "%s %s", tc.method, tc.path)
		if tc.status == 200 {
			assert.Assert(t, cmp.Contains(string(body), "Authorization: Basic "+key))
			assert.Assert(t, cmp.Contains(string(body), "Git-Protocol: version=2"))
		}
	}
	assert.Assert(t, !strings.Contains(l.log.String(), key), "the token is in the log")
}

func TestRoutesDoNotFollow(t *testing.T) {
	l := newRouteLab(t, http.RedirectHandler("https://blocked.example/take-the-key", http.StatusTemporaryRedirect))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(l.routeURL("/openai/v1"))
	assert.NilError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, response.StatusCode, http.StatusTemporaryRedirect)
	assert.Equal(t, l.dialled("blocked.example:443"), 0)
}

func TestRoutesStream(t *testing.T) {
	next := make(chan struct{})
	l := newRouteLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	response, err := http.Get(l.routeURL("/openai/v1/stream"))
	assert.NilError(t, err)
	defer func() { _ = response.Body.Close() }()
	reader := bufio.NewReader(response.Body)
	for i := range 3 {
		line, err := reader.ReadString('\n')
		assert.NilError(t, err)
		assert.Equal(t, line, fmt.Sprintf("data: %d\n", i))
		next <- struct{}{}
	}
}

func TestRoutesObeyThePolicy(t *testing.T) {
	l := newRouteLab(t, show())
	answer := l.handle(Order{Do: "deny", Rules: []string{"allowed.example"}, Origin: "user"})
	assert.Equal(t, answer.Error, "")
	status, body := get(t, http.DefaultClient, l.routeURL("/openai/v1"))
	assert.Equal(t, status, 403)
	assert.Assert(t, cmp.Contains(body, "denied by user"))
}

func TestRoutesTrustTheCompanysCA(t *testing.T) {
	other, _ := newCA(t)
	l := newLab(t, []string{"allowed.example"}, withRoutes, func(c *Config) {
		c.Start.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate[0]}))
		c.Roots = x509.NewCertPool()
	})
	l.caKey = other
	l.serveTLS(t, "allowed.example", show())
	status, _ := get(t, http.DefaultClient, l.routeURL("/openai/v1"))
	assert.Equal(t, status, 200)

	m := newLab(t, []string{"allowed.example"}, withRoutes)
	m.caKey = other // an authority that nobody trusts
	m.serveTLS(t, "allowed.example", show())
	status, body := get(t, http.DefaultClient, m.routeURL("/openai/v1"))
	assert.Equal(t, status, 502)
	assert.Assert(t, cmp.Contains(body, "unknown authority"))
}

func TestExclusiveRoutes(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "other.example"}, func(c *Config) {
		c.Start.Routes = []egress.Route{{
			Prefix: "/model", Target: "https://Allowed.example", Exclusive: true,
			Headers: map[string]egress.Secret{"X-Api-Key": key},
		}}
	})
	l.serveTLS(t, "allowed.example", show())
	l.serveTLS(t, "other.example", show())
	status, _ := get(t, http.DefaultClient, l.routeURL("/model/v1"))
	assert.Equal(t, status, 200)
	_, status, body := connectTo(t, l, "allowed.example:443")
	assert.Equal(t, status, 403)
	assert.Assert(t, cmp.Contains(body, "only reached by the route /model, port 3129 of the proxy"))
	status, _ = get(t, l.client(t), "http://allowed.example/")
	assert.Equal(t, status, 403)
	assert.ErrorContains(t, tls.Client(dial(t, l.at.TLS), &tls.Config{ServerName: "allowed.example"}).Handshake(), "access denied")
	conn, status, _ := connectTo(t, l, "other.example:443")
	assert.Equal(t, status, 200)
	assert.ErrorContains(t, tls.Client(conn, &tls.Config{ServerName: "allowed.example"}).Handshake(), "access denied")
}

// An endpoint that the user has set may be where no policy would lead, but
// there is no other way to it.
func TestRoutesToTheUsersOwnEndpoint(t *testing.T) {
	l := newLab(t, nil, func(c *Config) {
		c.Start.Policy.Mode = egress.Deny
		c.Start.Routes = []egress.Route{
			{Prefix: "/local", Target: "http://10.1.2.3:11434/base", Own: true, Headers: map[string]egress.Secret{"Authorization": "Bearer " + key}},
			{Prefix: "/metadata", Target: "http://169.254.169.254", Own: true, Headers: map[string]egress.Secret{"Authorization": key}},
		}
	})
	l.point("10.1.2.3", "10.1.2.3")
	l.point("169.254.169.254", "169.254.169.254")
	l.servePlain(t, "10.1.2.3:11434", show())
	l.servePlain(t, "169.254.169.254:80", show())

	status, body := get(t, http.DefaultClient, l.routeURL("/local/v1/messages"))
	assert.Equal(t, status, 200)
	assert.Assert(t, cmp.Contains(body, "/base/v1/messages"))
	assert.Assert(t, cmp.Contains(body, "Bearer "+key))
	assert.Equal(t, l.lastDecision(t).Why, "the endpoint that you have set")

	status, _ = get(t, l.client(t), "http://10.1.2.3:11434/base")
	assert.Equal(t, status, 403)
	status, _ = get(t, http.DefaultClient, l.routeURL("/metadata/latest"))
	assert.Assert(t, status == 403 || status == 502, "%d", status)
	assert.Equal(t, l.dialled("169.254.169.254:80"), 0)
}

// Keys that are handed over later replace those from before, at once, and keys
// that nobody handed over are not there.
func TestRoutesAreHandedOver(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.serveTLS(t, "allowed.example", show())
	route := func(prefix, secret string) egress.Route {
		return egress.Route{Prefix: prefix, Target: "https://allowed.example", Exclusive: true, Headers: map[string]egress.Secret{"X-Api-Key": egress.Secret(secret)}}
	}
	status, _ := get(t, http.DefaultClient, l.routeURL("/model/v1"))
	assert.Equal(t, status, 503)
	for _, secret := range []string{"sk-first", "sk-second"} {
		answer, err := l.order(t, Order{Do: "routes", Routes: []egress.Route{route("/model", secret)}})
		assert.NilError(t, err)
		assert.DeepEqual(t, answer.Routes, []string{"/model"})
		_, body := get(t, http.DefaultClient, l.routeURL("/model/v1"))
		assert.Assert(t, cmp.Contains(body, "X-Api-Key: "+secret))
		_, status, _ = connectTo(t, l, "allowed.example:443")
		assert.Equal(t, status, 403)
	}
	_, err := l.order(t, Order{Do: "routes", Routes: []egress.Route{route("/model", "sk-third"), route("/model", "sk-fourth")}})
	assert.ErrorContains(t, err, "duplicate route")
	_, body := get(t, http.DefaultClient, l.routeURL("/model/v1"))
	assert.Assert(t, cmp.Contains(body, "sk-second"), "half an order was obeyed")
	_, err = l.order(t, Order{Do: "routes"})
	assert.NilError(t, err)
	status, _ = get(t, http.DefaultClient, l.routeURL("/model/v1"))
	assert.Equal(t, status, 503)
	_, status, _ = connectTo(t, l, "allowed.example:443")
	assert.Equal(t, status, 200)
	for _, what := range []string{"sk-", "first", "second"} {
		assert.Assert(t, !strings.Contains(l.log.String(), what), "a key is in the log")
	}
}

func FuzzLocate(f *testing.F) {
	for _, seed := range []string{"/v1/messages", "/v1/../x", "/v1/%2e%2e/x", "/v1/..;/x", "/%", "//", `/\..`, "/v1?key=1", "/v1?a;key=1&%6bey=2"} {
		f.Add(seed)
	}
	routes, err := newRoutes([]egress.Route{{Prefix: "/a", Target: "https://allowed.example/base", Paths: []string{"/v1"}}})
	assert.NilError(f, err)
	f.Fuzz(func(t *testing.T, path string) {
		asked, err := url.Parse("http://proxy/a" + path)
		if err != nil || !strings.HasPrefix(asked.EscapedPath(), "/a/") {
			return
		}
		found, err := routes.byName["a"].locate(asked.EscapedPath()[2:], &http.Request{Method: "GET", URL: asked})
		if err != nil {
			return
		}
		again, err := url.Parse(found.String())
		assert.NilError(t, err)
		assert.Equal(t, again.Host, "allowed.example")
		clean := again.JoinPath(".").Path
		assert.Assert(t, clean == "/base/v1" || strings.HasPrefix(clean, "/base/v1/"), "%q leads to %q", path, clean)
		assert.Assert(t, !again.Query().Has("key"), again.String())
	})
}
