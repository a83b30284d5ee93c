package proxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// serveHTTP serves until the listener is closed, or the context ends.
func (s *Server) serveHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // it would quote requests
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				if s.clients.Add(1) > maxConnections {
					_ = conn.Close()
				}
			case http.StateClosed, http.StateHijacked:
				s.clients.Add(-1)
			default:
			}
		},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	return server.Serve(l)
}

// oneListener hands out one connection, and ends once that is closed.
type oneListener struct {
	conn  net.Conn
	taken bool
	once  sync.Once
	done  chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return &watchedConn{Conn: l.conn, closed: l.end}, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneListener) end()           { l.once.Do(func() { close(l.done) }) }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

func (l *oneListener) Close() error {
	l.end()
	return l.conn.Close()
}

// watchedConn tells when it was closed.
type watchedConn struct {
	net.Conn
	closed func()
}

func (c *watchedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
