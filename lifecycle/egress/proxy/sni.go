package proxy

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
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
			s.steer(ctx, place, conn)
		}()
	}
}

func (s *Server) steer(ctx context.Context, place slot, conn net.Conn) {
	const via = "sni"
	_ = conn.SetDeadline(time.Now().Add(s.helloTimeout))
	name, hello, err := readHello(conn)
	if err != nil {
		s.refuse(via, egress.Verdict{Host: name, Port: PortTLS}, err.Error(), "")
		sayDenied(conn)
		return
	}
	v := s.decide(via, name, PortTLS)
	if !v.Allowed || v.Literal {
		sayDenied(conn)
		return
	}
	host, err := s.connect(ctx, v)
	if err != nil {
		s.explain(via, v, err)
		sayDenied(conn)
		return
	}
	s.pipe(place, v, conn, host, hello)
}

// checkHello reads what a client sends after CONNECT to port 443, and compares
// the name in it with the host that it asked for: addresses are shared, and the
// other side goes by the name.
func (s *Server) checkHello(v egress.Verdict, conn net.Conn) (hello []byte, ok bool) {
	const via = "connect"
	_ = conn.SetDeadline(time.Now().Add(s.helloTimeout))
	name, hello, err := readHello(conn)
	if err != nil {
		s.refuse(via, v, err.Error(), "")
		return nil, false
	}
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
