// Package proxy is the only way out of a sandbox: a server that lets through what the policy allows, by name, and nothing else.
//
// There are five ways in. Programs that know proxies use CONNECT and absolute
// URLs on one port. For programs that do not, the resolver answers every allowed
// name with the proxy's own address, where port 443 reads the name from the TLS
// handshake and port 80 from the Host header. Routes add a key that the sandbox
// does not have. Whatever cannot be understood is refused.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/meter"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Limits. What is beyond them is refused, not queued. Together they bound the
// memory that a sandbox can make the proxy use: the worst that each connection may
// hold, times the number of connections, fits into the proxy's container.
const (
	maxTunnels     = 512
	maxConnections = 512 // of clients that speak HTTP, on all ports together
	maxHeader      = 32 << 10
	maxStream      = 256 << 10       // of an HTTP/2 response that the client does not read
	maxStreams     = 3 << 20         // of all responses on one HTTP/2 connection
	helloTimeout   = 5 * time.Second // from connection or CONNECT to the whole ClientHello
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
)

// Config is the configuration of a Server.
type Config struct {
	// Start is the message from the plugin, already checked.
	Start egress.Start
	// Log receives a line of JSON for each decision.
	Log io.Writer
	// Dial reaches hosts.
	Dial DialFunc
	// Resolve looks up names that the host's own proxy is to reach.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Roots are the authorities that the server itself trusts.
	Roots *x509.CertPool
	// Own are all addresses of the machine that the server runs on.
	Own []netip.Addr
	// HelloTimeout bounds the wait for a ClientHello; 0 is the default.
	HelloTimeout time.Duration
}

// Server holds the policy and everything that asks it.
type Server struct {
	policy       atomic.Pointer[egress.Policy]
	begun        egress.Policy // that it began with
	amending     sync.Mutex    // held while the policy is replaced
	address      netip.Addr
	guard        egress.Guard
	dial         DialFunc
	resolve      func(ctx context.Context, host string) ([]netip.Addr, error)
	upstream     *upstream
	journal      *journal
	stats        *stats
	refused      *refusedLog
	meter        *meter.Meter
	open         *registry
	clients      atomic.Int64    // connections that speak HTTP
	transport    *http.Transport // to hosts, and in TLS to the targets of routes
	routes       atomic.Pointer[routeTable]
	helloTimeout time.Duration
}

// New makes a server. It serves nothing yet.
func New(config Config) (*Server, error) {
	start := config.Start
	s := &Server{
		address:      start.Address,
		guard:        egress.Guard{Own: append([]netip.Addr{start.Address}, config.Own...), Networks: start.Networks},
		dial:         config.Dial,
		resolve:      config.Resolve,
		journal:      &journal{w: config.Log},
		stats:        newStats(),
		refused:      newRefusedLog(),
		meter:        meter.New(),
		open:         newRegistry(maxTunnels),
		helloTimeout: config.HelloTimeout,
	}
	if s.helloTimeout == 0 {
		s.helloTimeout = helloTimeout
	}
	s.begun = start.Policy
	s.policy.Store(&start.Policy)
	roots := config.Roots
	if start.CA != "" {
		roots = roots.Clone()
		if !roots.AppendCertsFromPEM([]byte(start.CA)) {
			return nil, errors.New("the additional certificate authorities are not certificates in PEM")
		}
	}
	var err error
	if s.upstream, err = newUpstream(start.Upstream, config.Dial, roots); err != nil {
		return nil, err
	}
	s.transport = s.newTransport(roots)
	routes, err := newRoutes(start.Routes)
	if err != nil {
		return nil, err
	}
	s.routes.Store(routes)
	return s, nil
}

// Serve answers on the listeners until the context ends or one of them fails,
// and then closes all listeners.
func (s *Server) Serve(ctx context.Context, l *Listeners) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	serve := map[string]func() error{
		"the proxy port":        func() error { return s.serveHTTP(ctx, l.Proxy, s.proxyHandler()) },
		"the HTTP port":         func() error { return s.serveHTTP(ctx, l.HTTP, s.plainHandler()) },
		"the port for routes":   func() error { return s.serveHTTP(ctx, l.Routes, s.routeHandler()) },
		"the TLS port":          func() error { return s.serveSNI(ctx, l.TLS) },
		"the resolver over TCP": func() error { return s.serveDNSOverTCP(ctx, l.DNSOverTCP) },
		"the control socket":    func() error { return s.serveControl(ctx, l.Control) },
	}
	if l.DNS != nil {
		serve["the resolver over UDP"] = func() error { return s.serveDNS(l.DNS) }
	}
	done := make(chan struct{}, len(serve))
	for what, run := range serve {
		go func() {
			stop(fmt.Errorf("serving %s: %w", what, run()))
			done <- struct{}{}
		}()
	}
	<-ctx.Done()
	cause := context.Cause(ctx)
	l.Close()
	s.open.closeAll()
	s.transport.CloseIdleConnections()
	for range serve {
		<-done
	}
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// decide asks the policy, and tells the log and the counters.
func (s *Server) decide(via, host string, port uint16) egress.Verdict {
	v := s.evaluate(via, host, port)
	s.record(via, v)
	return v
}

// evaluate evaluates the policy without logging.
func (s *Server) evaluate(via, host string, port uint16) egress.Verdict {
	if via == viaDNS {
		return s.policy.Load().Named(host)
	}
	v := s.policy.Load().Decide(host, port)
	if prefix, ok := s.routes.Load().exclusive[v.Host]; ok && v.Allowed && via != viaRoute {
		v.Allowed, v.Why = false, fmt.Sprintf("only reached by the route %s, port %d of the proxy", prefix, wire.PortRoutes)
	}
	return v
}

func (s *Server) record(via string, v egress.Verdict) {
	s.stats.decision(v)
	s.journal.decision(via, v)
	if !v.Allowed {
		s.refused.add(via, v, false)
	}
}

// refuse revokes an allowed verdict, for example because the resolved address is
// blocked.
func (s *Server) refuse(via string, v egress.Verdict, why, hint string) egress.Verdict {
	v.Allowed, v.Why, v.Hint = false, why, hint
	s.stats.decision(v)
	s.journal.decision(via, v)
	return v
}

// connect opens a connection to what a verdict allowed, through the host's own
// proxy where there is one.
func (s *Server) connect(ctx context.Context, v egress.Verdict) (net.Conn, error) {
	if through := s.upstream.secure(v.Host, v.Port); through != nil {
		if err := s.checkTarget(ctx, v); err != nil {
			return nil, err
		}
		return s.upstream.tunnel(ctx, through, v.Host, v.Port)
	}
	return s.direct(ctx, v)
}

func (s *Server) direct(ctx context.Context, v egress.Verdict) (net.Conn, error) {
	return s.dial(ctx, v.Host, v.Port, func(addr netip.Addr) error { return s.guard.Check(addr, v.Ranges) })
}

// checkTarget checks where a name leads before another proxy is asked for it.
// That proxy resolves the name itself, so this is weaker than the check on a
// connection of our own; and behind such proxies names of the internet often
// cannot be resolved at all, which therefore is no reason to refuse.
func (s *Server) checkTarget(ctx context.Context, v egress.Verdict) error {
	if addr, err := netip.ParseAddr(v.Host); err == nil {
		return s.guard.Check(addr, v.Ranges)
	}
	addrs, _ := s.resolve(ctx, absolute(v.Host))
	for _, addr := range addrs {
		if err := s.guard.Check(addr.Unmap(), v.Ranges); err != nil {
			return err
		}
	}
	return nil
}

// change replaces the policy and cuts what the new one refuses.
func (s *Server) change(next egress.Policy) {
	s.policy.Store(&next)
	s.transport.CloseIdleConnections()
	s.open.closeIf(func(host string, port uint16) bool { return !next.Decide(host, port).Allowed })
}
