package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/docker-ralph/docker-ralph/egress"
)

// chunk is how much goes through a tunnel before it is counted.
const chunk = 1 << 20

// hold registers the target of a slot. It checks the policy again, which may have
// changed since the verdict, and refuses connections that were being established
// during a closeAll.
func (s *Server) hold(place slot, v egress.Verdict, end func()) bool {
	if v.Own {
		return true
	}
	if !place.assign(v.Host, v.Port, end) {
		return false
	}
	return s.policy.Load().Decide(v.Host, v.Port).Allowed
}

// begin returns the first bytes to send to the host, or false to send none.
type begin func() (first []byte, ok bool)

func already(first []byte) begin { return func() ([]byte, bool) { return first, true } }

// pipe carries bytes both ways until both sides have ended. What begin returns
// goes to the host first; the host may speak before that.
func (s *Server) pipe(place slot, v egress.Verdict, client, host net.Conn, start begin) {
	end := func() { _ = client.Close(); _ = host.Close() }
	defer end()
	if !s.hold(place, v, end) {
		return
	}
	count := s.stats.of(v.Host, v.Port)
	back := make(chan struct{})
	go func() {
		defer close(back)
		carry(client, host, &count.received)
	}()
	if first, ok := start(); ok && send(host, first, &count.sent) {
		carry(host, client, &count.sent)
	} else {
		end()
	}
	<-back
}

func send(host net.Conn, first []byte, count *atomic.Int64) bool {
	if len(first) == 0 {
		return true
	}
	n, err := host.Write(first)
	count.Add(int64(n))
	return err == nil
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
