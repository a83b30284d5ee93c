package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
)

// nameServer answers A questions, each time with the next of a name's answers.
type nameServer struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   []string
}

func (s *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(s.reply(buffer[:n]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q.Name.String())
	answers := s.answers[q.Name.String()]
	switch {
	case len(answers) == 0:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		for _, text := range answers[0] {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
			})
		}
		if len(answers) > 1 {
			s.answers[q.Name.String()] = answers[1:]
		}
	}
	packed, _ := m.Pack()
	return packed
}

func TestDialerChecksWhereItConnects(t *testing.T) {
	names := &nameServer{answers: map[string][][]string{
		"inside.example.":   {{"127.0.0.1"}},
		"metadata.example.": {{"169.254.169.254"}},
		"private.example.":  {{"10.0.0.1"}, {"10.0.0.1"}},
	}}
	dial := Dialer(names.resolver(t))
	guard := egress.Guard{}
	for _, host := range []string{"inside.example", "metadata.example", "private.example", "127.0.0.1", "::1", "0.0.0.0"} {
		conn, err := dial(t.Context(), host, 443, func(a netip.Addr) error { return guard.Check(a, nil) })
		var refused *egress.AddressError
		assert.Assert(t, errors.As(err, &refused), "%s: %v %v", host, conn, err)
	}
	_, err := dial(t.Context(), "missing.example", 443, func(netip.Addr) error { return nil })
	assert.Equal(t, networkError(err), "there is no such host")
	names.mu.Lock()
	defer names.mu.Unlock()
	for _, name := range names.asked {
		assert.Assert(t, name[len(name)-1] == '.' && len(name) < 20, "a search domain was tried: %s", name)
	}
}

func TestSecondResolutionDiffers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	// First an address that passes, then the one that must not: the check sees
	// each address that is connected to, not one that was looked up earlier.
	names := &nameServer{answers: map[string][][]string{"rebinding.example.": {{"127.0.0.1"}, {"127.0.0.2"}}}}
	dial := Dialer(names.resolver(t))
	var seen []netip.Addr
	check := func(a netip.Addr) error {
		seen = append(seen, a)
		if a == netip.MustParseAddr("127.0.0.2") {
			return &egress.AddressError{Addr: a, What: "elsewhere"}
		}
		return nil
	}
	conn, err := dial(t.Context(), "rebinding.example", port, check)
	assert.NilError(t, err)
	assert.Equal(t, conn.RemoteAddr().(*net.TCPAddr).IP.String(), seen[0].String())
	_ = conn.Close()
	_, err = dial(t.Context(), "rebinding.example", port, check)
	assert.ErrorContains(t, err, "elsewhere")
	assert.Equal(t, len(seen), 2)
}

func TestOneOfSeveralAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	names := &nameServer{answers: map[string][][]string{"mixed.example.": {{"127.0.0.2", "127.0.0.1"}}}}
	conn, err := Dialer(names.resolver(t))(t.Context(), "mixed.example", uint16(l.Addr().(*net.TCPAddr).Port), func(a netip.Addr) error {
		if a != netip.MustParseAddr("127.0.0.1") {
			return &egress.AddressError{Addr: a, What: "private"}
		}
		return nil
	})
	assert.NilError(t, err)
	assert.Equal(t, conn.RemoteAddr().(*net.TCPAddr).IP.String(), "127.0.0.1")
	_ = conn.Close()
}

func TestDialerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dialer(nil)(ctx, "203.0.113.1", 443, func(netip.Addr) error { return nil })
	assert.Assert(t, err != nil)
}
