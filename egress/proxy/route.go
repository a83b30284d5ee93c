package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/meter"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// route adds a key to requests for one target.
type route struct {
	target  *url.URL
	port    uint16
	headers map[string]egress.Secret
	// Exact requests, and paths below which all are sent.
	requests, paths []string
	git             []string // the services of git that it is for; none for what is not git
	own             bool
}

// Headers and query parameters that hold keys somewhere. What the agent put
// into them is not sent on: it could be another account's, or one of the
// headers that a server prefers to the one we set. Neither are headers by which
// some servers replace the path or the method that was checked here.
var (
	keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie"}
	// What is done is charged to the account of the key, not to another one that it can act for.
	accountHeaders = []string{"Openai-Organization", "Openai-Project", "Anthropic-Organization-Id", "Anthropic-Workspace-Id", "Chatgpt-Account-Id", "X-Goog-User-Project"}
	rewriteHeaders = []string{
		"X-Original-Url", "X-Original-Uri", "X-Rewrite-Url", "X-Forwarded-Uri", "X-Forwarded-Path", "X-Forwarded-Prefix",
		"X-Envoy-Original-Path", "X-Forwarded-Host", "X-Forwarded-Method", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
	}
	keyQueries = []string{"key", "api_key", "api-key", "access_token"}
)

// viaRoute is how the log calls it.
const viaRoute = "route"

// routeTable is what routes there are. It is replaced as a whole.
type routeTable struct {
	byName    map[string]*route // by the prefix without its slash
	exclusive map[string]string // hosts that are reached by a route only, to its prefix
}

// newRoutes makes the table of routes that were checked.
func newRoutes(configs []egress.Route) (*routeTable, error) {
	t := &routeTable{byName: map[string]*route{}, exclusive: map[string]string{}}
	for _, c := range configs {
		target, err := url.Parse(c.Target)
		if err != nil {
			return nil, fmt.Errorf("route %q: the target is not a URL", c.Prefix)
		}
		r := &route{target: target, port: wire.PortTLS, headers: map[string]egress.Secret{}, requests: c.Requests, paths: c.Paths, git: gitServices(c), own: c.Own}
		for name, value := range c.Headers {
			r.headers[http.CanonicalHeaderKey(name)] = value
		}
		if r.plain() {
			r.port = wire.PortHTTP
		}
		if text := target.Port(); text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("route %q: %q is not a port", c.Prefix, text)
			}
			r.port = uint16(n)
		}
		t.byName[strings.TrimPrefix(c.Prefix, "/")] = r
		if host, err := egress.Normalise(target.Hostname()); err == nil && c.Exclusive {
			t.exclusive[host] = c.Prefix
		}
	}
	return t, nil
}

// routeHandler serves the port for routes.
func (s *Server) routeHandler() http.Handler {
	const via = viaRoute
	forward := s.reverseProxy(via)
	// Not TRACE: the answer would be the request, with the key in it.
	methods := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case r.URL.IsAbs():
		case path == denylog.Path:
			serveJSON(w, r, s.refusedSince(r.URL.Query().Get(denylog.Since)))
			return
		case path == usage.Path:
			serveJSON(w, r, s.meter.Totals())
			return
		}
		prefix, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
		if prefix == "" || r.URL.IsAbs() || !slices.Contains(methods, r.Method) {
			refuseText(w, http.StatusNotFound, "docker ralph: there is no such route")
			return
		}
		if wantsWebSocket(r.Header) {
			refuseWebSocket(w)
			return
		}
		found, ok := s.routes.Load().byName[prefix]
		if !ok {
			refuseText(w, http.StatusServiceUnavailable, "docker ralph: the proxy has no key for "+egress.Printable(prefix)+
				". It keeps keys in memory only: after a restart, the next \"docker ralph plan\" or \"build\" hands them over")
			return
		}
		target, err := found.locate("/"+path, r)
		if err != nil {
			v := egress.Verdict{Host: found.target.Hostname(), Port: found.port}
			writeRefusal(w, s.refuse(via, v, err.Error(), ""))
			return
		}
		v := s.decideRoute(found)
		if !v.Allowed {
			writeRefusal(w, v)
			return
		}
		target.Host = hostHeader(v)
		metered := r.Method == http.MethodPost && len(found.git) == 0
		if metered && isResponses(target.Path) {
			if r.Body, err = meter.ForegroundOnly(r.Body, r.Header); err != nil {
				refuseRequest(w, err)
				return
			}
		}
		s.forward(forward, w, r, outbound{verdict: v, plain: found.plain(), route: "/" + prefix, metered: metered, change: func(out *http.Request) {
			out.URL, out.Host = target, target.Host
			found.prepare(out)
			if metered {
				meter.AcceptEncoding(out.Header)
			}
		}})
	})
}

// plain reports whether the target is asked without TLS.
func (r *route) plain() bool { return r.target.Scheme == "http" }

// decideRoute is decide for the target of a route.
func (s *Server) decideRoute(r *route) egress.Verdict {
	if !r.own {
		return s.decide(viaRoute, r.target.Hostname(), r.port)
	}
	v := egress.Verdict{
		Allowed: true, Own: true, Host: r.target.Hostname(), Port: r.port,
		Why: "the endpoint that you have set", Ranges: egress.PrivateRanges(),
	}
	s.record(viaRoute, v)
	return v
}

// locate returns the URL for a path after the prefix, still escaped. A path
// that servers resolve differently is an error.
func (r *route) locate(path string, req *http.Request) (*url.URL, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, errors.New("the path cannot be read")
	}
	for segment := range strings.FieldsFuncSeq(plain, func(c rune) bool { return c == '/' || c == '\\' }) {
		// Some servers remove parameters ("..;x") before they resolve a path.
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return nil, errors.New("the path leads out of the route")
		}
	}
	if strings.ContainsAny(plain, "\\%\x00") {
		return nil, errors.New("the path is escaped twice, or has a backslash")
	}
	if !r.has(req.Method, plain) {
		return nil, errors.New("the route does not allow this request")
	}
	if len(r.requests) > 0 && len(r.paths) == 0 {
		path = (&url.URL{Path: plain}).EscapedPath() // what is sent is what was compared
	}
	if len(r.git) > 0 && (strings.Contains(strings.ToLower(path), "%2f") || !asksGit(r.git, req.Method, plain, req.URL.Query())) {
		return nil, fmt.Errorf("the route is for %s only", strings.Join(r.git, " and "))
	}
	target := *r.target
	target.Path = strings.TrimSuffix(r.target.Path, "/") + plain
	target.RawPath = strings.TrimSuffix(r.target.EscapedPath(), "/") + path
	target.RawQuery = withoutKeys(req.URL.RawQuery)
	return &target, nil
}

// has reports whether the route allows a request.
func (r *route) has(method, path string) bool {
	exact := func(request string) bool {
		if base, ok := strings.CutSuffix(request, "*"); ok {
			name, found := strings.CutPrefix(method+" "+path, base)
			return found && name != "" && !strings.Contains(name, "/")
		}
		return request == method+" "+path
	}
	below := func(base string) bool {
		return path == base || strings.HasPrefix(path, strings.TrimSuffix(base, "/")+"/")
	}
	all := len(r.requests) == 0 && len(r.paths) == 0
	return all || slices.ContainsFunc(r.requests, exact) || slices.ContainsFunc(r.paths, below)
}

// withoutKeys drops the parameters that hold keys, and those that are not read
// in the same way everywhere.
func withoutKeys(query string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil && !strings.Contains(pair, ";") && !slices.Contains(keyQueries, strings.ToLower(name)) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// The services of git, as they are called in requests.
const (
	gitFetch = "git-upload-pack"
	gitPush  = "git-receive-pack"
)

// gitServices are those that a route is for.
func gitServices(c egress.Route) []string {
	switch {
	case c.GitReadOnly:
		return []string{gitFetch}
	case c.GitPush:
		return []string{gitFetch, gitPush}
	}
	return nil
}

// asksGit reports whether a request is one of those of git for these services.
func asksGit(services []string, method, path string, query url.Values) bool {
	for _, service := range services {
		switch {
		case method == http.MethodPost && strings.HasSuffix(path, "/"+service):
			return true
		case method == http.MethodGet && strings.HasSuffix(path, "/info/refs") && slices.Equal(query["service"], []string{service}):
			return true
		}
	}
	return false
}

// prepare strips what the agent sent in place of keys, and puts the key in. Some
// servers read "_" in the name of a header as "-", and trailers as headers. After
// an upgrade, tokens could not be counted.
func (r *route) prepare(out *http.Request) {
	out.Trailer = nil
	for name := range out.Header {
		meant := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		_, ours := r.headers[meant]
		if ours || slices.Contains(keyHeaders, meant) || slices.Contains(accountHeaders, meant) || slices.Contains(rewriteHeaders, meant) {
			delete(out.Header, name)
		}
	}
	for name, value := range r.headers {
		out.Header.Set(name, string(value))
	}
	out.Header.Del("Upgrade")
	out.Header.Del("Connection")
}
