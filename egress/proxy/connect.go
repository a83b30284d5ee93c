package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/wire"
)

// proxyHandler serves programs that are configured to use the proxy.
func (s *Server) proxyHandler() http.Handler {
	plain := s.plainHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			s.serveConnect(w, r)
		case !r.URL.IsAbs():
			refuseText(w, http.StatusBadRequest, "docker ralph: this is a proxy, it has no pages of its own")
		default:
			plain.ServeHTTP(w, r)
		}
	})
}

func (s *Server) serveConnect(w http.ResponseWriter, r *http.Request) {
	const via = "connect"
	name, port, err := splitTarget(r.RequestURI)
	if err != nil {
		v := s.refuse(via, egress.Verdict{Host: r.RequestURI}, err.Error(), "")
		writeRefusal(w, v)
		return
	}
	v := s.decide(via, name, port)
	if !v.Allowed {
		writeRefusal(w, v)
		return
	}
	place, ok := s.open.take()
	if !ok {
		writeBusy(w)
		return
	}
	defer place.free()
	if port == wire.PortHTTP {
		// Raw bytes to port 80 would say any host they like.
		s.servePinned(w, r, place, v)
		return
	}
	host, err := s.connect(r.Context(), v)
	if err != nil {
		s.writeExplained(w, via, v, err)
		return
	}
	defer func() { _ = host.Close() }()
	client, err := accept(w)
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	s.tunnel(place, v, client, host)
}

// tunnel looks at what the client says first, then takes the buffer of the HTTP
// server out of the way: the connections themselves are joined.
func (s *Server) tunnel(place slot, v egress.Verdict, client *bufferedConn, host net.Conn) {
	switch {
	case v.Literal: // no name to compare with
		s.pipe(place, v, client.Conn, host, func() ([]byte, bool) {
			rest, err := client.rest()
			return rest, err == nil
		})
	case v.Port == wire.PortTLS:
		hello, ok := s.checkHello(v, client)
		if !ok {
			reportDenied(client)
			return
		}
		rest, err := client.rest()
		if err != nil {
			return
		}
		s.pipe(place, v, client.Conn, host, already(append(hello, rest...)))
	default:
		s.pipe(place, v, client.Conn, host, s.checkAny(v, client))
	}
}

// splitTarget reads the target of CONNECT, which is a host and a port. The host
// is as it was sent: the policy looks at it.
func splitTarget(target string) (host string, port uint16, err error) {
	i := strings.LastIndexByte(target, ':')
	if i < 0 {
		return "", 0, fmt.Errorf("CONNECT without a port")
	}
	n, err := strconv.ParseUint(target[i+1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("CONNECT without a port")
	}
	host = target[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", 0, fmt.Errorf("CONNECT to an invalid host")
		}
	}
	return host, uint16(n), nil
}

// bufferedConn is a connection of which a server has read a bit already.
type bufferedConn struct {
	net.Conn
	buffer *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.buffer.Read(p) }

// CloseWrite ends the client's direction.
func (c *bufferedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// rest empties the buffer.
func (c *bufferedConn) rest() ([]byte, error) {
	rest := make([]byte, c.buffer.Buffered())
	_, err := c.buffer.Read(rest)
	if len(rest) == 0 {
		err = nil
	}
	return rest, err
}

// accept hijacks the connection from the HTTP server and confirms the tunnel.
func accept(w http.ResponseWriter) (*bufferedConn, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &bufferedConn{Conn: conn, buffer: rw.Reader}, nil
}

// servePinned serves HTTP in a tunnel, only for the host of its CONNECT.
func (s *Server) servePinned(w http.ResponseWriter, r *http.Request, place slot, v egress.Verdict) {
	client, err := accept(w)
	if err != nil {
		return
	}
	if !s.hold(place, v, func() { _ = client.Close() }) {
		_ = client.Close()
		return
	}
	// The request's own context ends when its connection is taken from it.
	ctx := context.WithValue(context.WithoutCancel(r.Context()), pinKey{}, v.Host)
	one := &oneListener{conn: client, done: make(chan struct{})}
	_ = s.serveHTTP(ctx, one, s.plainHandler())
}
