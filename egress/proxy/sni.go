package proxy

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/wire"
)

// serveSNI serves programs that know of no proxy: the resolver led them here.
func (s *Server) serveSNI(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		place, ok := s.open.take()
		if !ok {
			_ = conn.Close()
			continue
		}
		go func() {
			defer place.free()
			defer func() { _ = conn.Close() }()
			s.serveTLSConn(ctx, place, conn)
		}()
	}
}

func (s *Server) serveTLSConn(ctx context.Context, place slot, conn net.Conn) {
	const via = "sni"
	_ = conn.SetDeadline(time.Now().Add(s.helloTimeout))
	name, hello, err := readHello(conn)
	if err != nil {
		s.refuse(via, egress.Verdict{Host: name, Port: wire.PortTLS}, err.Error(), "")
		reportDenied(conn)
		return
	}
	v := s.decide(via, name, wire.PortTLS)
	if !v.Allowed || v.Literal {
		reportDenied(conn)
		return
	}
	host, err := s.connect(ctx, v)
	if err != nil {
		s.explain(via, v, err)
		reportDenied(conn)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	s.pipe(place, v, conn, host, already(hello))
}

// checkHello reads what a client sends after CONNECT to port 443, and compares
// the name in it with the host that it asked for: addresses are shared, and the
// other side goes by the name.
func (s *Server) checkHello(v egress.Verdict, conn net.Conn) (hello []byte, ok bool) {
	const via = "connect"
	_ = conn.SetReadDeadline(time.Now().Add(s.helloTimeout))
	name, hello, err := readHello(conn)
	if err != nil {
		s.refuse(via, v, err.Error(), "")
		return nil, false
	}
	_ = conn.SetReadDeadline(time.Time{})
	if same, err := egress.Normalise(name); err == nil && same == v.Host {
		return hello, true
	}
	inner := s.decide(via, name, v.Port)
	if !inner.Allowed || inner.Literal {
		s.refuse(via, v, fmt.Sprintf("TLS for another host: %.253q", name), "")
		return nil, false
	}
	return hello, true
}

// recordHandshake is the first byte of every TLS connection.
const recordHandshake = 0x16

// checkAny is for other ports than 443, where anything may be spoken. Where TLS
// is, the name in it must fit as well. It waits for the client as long as that
// takes: in some protocols the host speaks first.
func (s *Server) checkAny(v egress.Verdict, client *bufferedConn) begin {
	return func() ([]byte, bool) {
		next, err := client.buffer.Peek(1)
		if err == nil && next[0] == recordHandshake {
			hello, ok := s.checkHello(v, client)
			if !ok {
				return nil, false
			}
			rest, err := client.rest()
			return append(hello, rest...), err == nil
		}
		rest, err := client.rest()
		return rest, err == nil
	}
}
