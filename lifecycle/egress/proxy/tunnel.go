package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
)

// chunk is how much goes through a tunnel before it is counted.
const chunk = 1 << 20

// hold says what a place is used for. The policy may have changed between the
// verdict and now, with nobody to cut this connection: so it is asked again.
func (s *Server) hold(place slot, v egress.Verdict, end func()) bool {
	place.is(v.Host, v.Port, end)
	return s.policy.Load().Decide(v.Host, v.Port).Allowed
}

// pipe carries bytes both ways until both sides have ended. first are those
// that were already read from the client.
func (s *Server) pipe(place slot, v egress.Verdict, client, host net.Conn, first []byte) {
	end := func() { _ = client.Close(); _ = host.Close() }
	defer end()
	if !s.hold(place, v, end) {
		return
	}
	_ = client.SetDeadline(time.Time{})
	count := s.stats.of(v.Host, v.Port)
	back := make(chan struct{})
	go func() {
		defer close(back)
		carry(client, host, &count.received)
	}()
	if n, err := io.Copy(host, bytes.NewReader(first)); err == nil {
		count.sent.Add(n)
		carry(host, client, &count.sent)
	} else {
		end()
	}
	<-back
}

// carry copies until src ends, and passes the end on. Between TCP connections
// the kernel moves the bytes (splice), also through io.CopyN.
func carry(dst, src net.Conn, count *atomic.Int64) {
	for {
		n, err := io.CopyN(dst, src, chunk)
		count.Add(n)
		if err == nil {
			continue
		}
		half, ok := dst.(interface{ CloseWrite() error })
		if errors.Is(err, io.EOF) && ok {
			_ = half.CloseWrite()
			return
		}
		_ = dst.Close()
		_ = src.Close()
		return
	}
}
