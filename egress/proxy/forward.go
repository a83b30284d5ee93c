package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/meter"
	"github.com/docker-ralph/docker-ralph/wire"
)

// pinKey marks the context of connections that are for one host only.
type pinKey struct{}

// requestKey carries the verdict on a request to the dialer, which connects only to
// what was allowed.
type requestKey struct{}

type outbound struct {
	verdict egress.Verdict
	plain   bool                // HTTP without TLS
	route   string              // prefix of the route that it takes; "" for none
	metered bool                // may be a request to a model, whose tokens are counted
	change  func(*http.Request) // what makes the outgoing request
}

func outboundOf(r *http.Request) outbound {
	e, _ := r.Context().Value(requestKey{}).(outbound)
	return e
}

func (s *Server) newTransport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                  s.upstream.forRequest,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConns:           32,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 2 * maxHeader,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: maxStream, MaxReceiveBufferPerConnection: maxStreams},
		DialContext:            s.dialForRequest,
	}
}

// dialForRequest connects for an HTTP request: to the host that its outbound
// allows, or to the host's own proxy.
func (s *Server) dialForRequest(ctx context.Context, _, address string) (net.Conn, error) {
	e, ok := ctx.Value(requestKey{}).(outbound)
	if !ok {
		return nil, fmt.Errorf("connecting to %s: not allowed", address)
	}
	v := e.verdict
	if e.plain {
		if through := s.upstream.plain(v.Host, v.Port); through != nil {
			return s.upstream.dialTCP(ctx, through)
		}
	}
	if address != net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port))) {
		return nil, fmt.Errorf("connecting to %s: another host was allowed", address)
	}
	if e.plain {
		return s.direct(ctx, v)
	}
	return s.connect(ctx, v)
}

// plainHandler forwards plain HTTP to the host in the URL, or in the Host header
// when the resolver has led the client here.
func (s *Server) plainHandler() http.Handler {
	forward := s.reverseProxy("http")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const via = "http"
		name, port, err := plainTarget(r)
		if err != nil {
			refuseText(w, http.StatusBadRequest, "docker ralph: "+err.Error())
			return
		}
		v := s.decide(via, name, port)
		if pin, ok := r.Context().Value(pinKey{}).(string); ok && v.Allowed && (pin != v.Host || port != wire.PortHTTP) {
			v = s.refuse(via, v, "the connection was made for "+pin, "")
		}
		if !v.Allowed {
			writeRefusal(w, v)
			return
		}
		// Here and not on dialling: connections to another proxy are shared by
		// all hosts behind it.
		if s.upstream.plain(v.Host, port) != nil {
			if err := s.checkTarget(r.Context(), v); err != nil {
				s.writeExplained(w, via, v, err)
				return
			}
		}
		s.forward(forward, w, r, plainOutbound(v, r.URL))
	})
}

// plainOutbound takes the path from the request, and the host from the verdict.
func plainOutbound(v egress.Verdict, asked *url.URL) outbound {
	target := &url.URL{
		Scheme: "http", Host: net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port))),
		Path: asked.Path, RawPath: asked.RawPath, RawQuery: asked.RawQuery,
	}
	return outbound{verdict: v, plain: true, change: func(out *http.Request) {
		out.URL, out.Host = target, hostHeader(v)
		// An upgrade would end what can be understood of the connection.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}}
}

// plainTarget returns the host and the port that a plain request is for.
func plainTarget(r *http.Request) (string, uint16, error) {
	if r.URL.IsAbs() && r.URL.Scheme != "http" {
		return "", 0, fmt.Errorf("a proxy is asked for %q URLs by CONNECT", r.URL.Scheme)
	}
	if r.Method == http.MethodConnect {
		return "", 0, fmt.Errorf("CONNECT is for the proxy port, %d", wire.PortProxy)
	}
	// For an absolute URL this is the URL's host, whatever the header said.
	host := r.Host
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		host += ":80"
	}
	name, port, err := splitTarget(host)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("the request names no host")
	case !r.URL.IsAbs() && port != wire.PortHTTP:
		return "", 0, fmt.Errorf("this is port 80, the request is for port %d", port)
	}
	return name, port, nil
}

// hostHeader is the one that the host gets.
func hostHeader(v egress.Verdict) string {
	if v.Port == wire.PortHTTP || v.Port == wire.PortTLS {
		return v.Host
	}
	return net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port)))
}

// reverseProxy carries requests and answers, flushing as they come, without the
// headers that are meant for a single hop.
func (s *Server) reverseProxy(via string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     s.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(r *httputil.ProxyRequest) { outboundOf(r.In).change(r.Out) },
		ModifyResponse: func(r *http.Response) error {
			e := outboundOf(r.Request)
			v := e.verdict
			if e.route != "" && rejectsKey(r, v) {
				s.journal.failure(e, r.StatusCode, fmt.Sprintf("it answered %d %s", r.StatusCode, http.StatusText(r.StatusCode)))
			}
			count(&r.Body, &s.stats.of(v.Host, v.Port).received)
			if e.metered && r.StatusCode >= 200 && r.StatusCode < 300 {
				r.Body = s.meter.Tee(r.Body, r.Header)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			e := outboundOf(r)
			if errors.Is(err, meter.ErrBackground) || errors.Is(err, meter.ErrUnreadable) {
				refuseRequest(w, err)
				return
			}
			if e.route != "" && !errors.Is(err, context.Canceled) {
				s.journal.failure(e, 0, networkError(err))
			}
			s.writeExplained(w, via, e.verdict, err)
		},
	}
}

// rejectsKey reports whether a response says that the key, or the address of an
// endpoint of the user's own, is wrong.
func rejectsKey(r *http.Response, v egress.Verdict) bool {
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusNotFound:
		return v.Own && r.Request.Method == http.MethodPost
	}
	return false
}

// forward sends one request on, to where its verdict allows.
func (s *Server) forward(to *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request, e outbound) {
	place, ok := s.open.take()
	if !ok {
		writeBusy(w)
		return
	}
	defer place.free()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), requestKey{}, e))
	defer cancel()
	if !s.hold(place, e.verdict, cancel) {
		s.writeCut(w, e.verdict)
		return
	}
	r = r.WithContext(ctx)
	sent := &s.stats.of(e.verdict.Host, e.verdict.Port).sent
	sent.Add(int64(len(r.RequestURI)))
	count(&r.Body, sent)
	to.ServeHTTP(w, r)
}

// count wraps a body so that its bytes are counted.
func count(body *io.ReadCloser, n *atomic.Int64) {
	switch b := (*body).(type) {
	case nil:
	case io.ReadWriteCloser: // after an upgrade
		*body = &countedStream{ReadWriteCloser: b, n: n}
	default:
		if b != http.NoBody {
			*body = &countedBody{ReadCloser: b, n: n}
		}
	}
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

type countedStream struct {
	io.ReadWriteCloser
	n *atomic.Int64
}

func (c *countedStream) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
