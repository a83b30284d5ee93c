package proxy

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/docker-ralph/docker-ralph/egress"
)

// answerTTL is short, so that a change of the policy is seen soon. In seconds.
const answerTTL = 5

// viaDNS is how the log calls questions for names.
const viaDNS = "dns"

// Limits of the resolver.
const (
	maxQuery       = 4096
	maxDNSClients  = 64
	dnsTCPDeadline = 10 * time.Second
)

// serveDNS answers over UDP until the socket is closed.
func (s *Server) serveDNS(conn net.PacketConn) error {
	buffer := make([]byte, maxQuery)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if answer := s.answer(buffer[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// serveDNSOverTCP answers over TCP until the listener is closed.
func (s *Server) serveDNSOverTCP(ctx context.Context, l net.Listener) error {
	free := make(chan struct{}, maxDNSClients)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		select {
		case free <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		go func() {
			defer func() { <-free }()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			defer func() { _ = conn.Close() }()
			s.answerStream(conn)
		}()
	}
}

// answerStream answers queries that have their length before them.
func (s *Server) answerStream(conn net.Conn) {
	for {
		_ = conn.SetDeadline(time.Now().Add(dnsTCPDeadline))
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(length[:]))
		if n > maxQuery {
			return
		}
		query := make([]byte, n)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := s.answer(query)
		if answer == nil {
			return
		}
		out := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
		if _, err := conn.Write(append(out, answer...)); err != nil {
			return
		}
	}
}

// answer returns the answer to a query; nil for an invalid one. It never forwards a
// query, because the name in it would be a message to the owner of the domain. Allowed names lead to the proxy itself; nothing else exists.
func (s *Server) answer(query []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil || header.Response {
		return nil
	}
	reply := dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode,
		Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}
	questions, err := p.AllQuestions()
	switch {
	case header.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, nil, nil)
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, nil, nil)
	}
	q := questions[0]
	if egress.IsLocal(q.Name.String()) {
		return pack(reply, &q, localhostRecord(q))
	}
	v := s.evaluate(viaDNS, q.Name.String(), 0)
	if !v.Allowed && worthLogging(q) {
		s.record(viaDNS, egress.Verdict{Host: v.Host, Why: v.Why, Hint: v.Hint})
	}
	if !v.Allowed || q.Class != dnsmessage.ClassINET {
		reply.RCode = dnsmessage.RCodeNameError
		return pack(reply, &q, nil)
	}
	return pack(reply, &q, s.record4or6(q))
}

// localhostRecord is 127.0.0.1 alone: not every sandbox has ::1. Only some programs know that
// address without a question.
func localhostRecord(q dnsmessage.Question) dnsmessage.ResourceBody {
	if q.Type != dnsmessage.TypeA || q.Class != dnsmessage.ClassINET {
		return nil
	}
	return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
}

// worthLogging is false for questions that come along with one for an address,
// and for those about the names of addresses, which programs ask for their logs.
func worthLogging(q dnsmessage.Question) bool {
	switch q.Type {
	case dnsmessage.TypeAAAA, dnsmessage.TypeHTTPS, dnsmessage.TypeSVCB:
		return false
	case dnsmessage.TypePTR:
		return !strings.HasSuffix(strings.ToLower(q.Name.String()), ".arpa.")
	}
	return true
}

// record4or6 is the proxy's address, or nil if it has none of the kind. Other
// kinds of records are empty, also those that would lead clients past the
// proxy's ports or hide the name from it (HTTPS, SVCB).
func (s *Server) record4or6(q dnsmessage.Question) dnsmessage.ResourceBody {
	switch {
	case q.Type == dnsmessage.TypeA && s.address.Is4():
		return &dnsmessage.AResource{A: s.address.As4()}
	case q.Type == dnsmessage.TypeAAAA && s.address.Is6():
		return &dnsmessage.AAAAResource{AAAA: s.address.As16()}
	}
	return nil
}

func pack(header dnsmessage.Header, q *dnsmessage.Question, body dnsmessage.ResourceBody) []byte {
	m := dnsmessage.Message{Header: header}
	if q != nil {
		m.Questions = []dnsmessage.Question{*q}
	}
	if body != nil {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: answerTTL},
			Body:   body,
		}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}
