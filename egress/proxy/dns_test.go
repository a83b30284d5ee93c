package proxy

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
)

func question(tb testing.TB, name string, kind dnsmessage.Type) []byte {
	tb.Helper()
	parsed, err := dnsmessage.NewName(name)
	assert.NilError(tb, err)
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: parsed, Type: kind, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	assert.NilError(tb, err)
	return packed
}

func askUDP(tb testing.TB, l *lab, query []byte) dnsmessage.Message {
	tb.Helper()
	conn, err := net.Dial("udp", l.at.DNS.LocalAddr().String())
	assert.NilError(tb, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write(query)
	assert.NilError(tb, err)
	assert.NilError(tb, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	buffer := make([]byte, 1500)
	n, err := conn.Read(buffer)
	assert.NilError(tb, err)
	var m dnsmessage.Message
	assert.NilError(tb, m.Unpack(buffer[:n]))
	return m
}

func TestResolver(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "*.wild.example", "ssh.example:22"})
	for _, tc := range []struct {
		name, host string
		kind       dnsmessage.Type
		code       dnsmessage.RCode
		address    string
	}{
		{"allowed", "allowed.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"in mixed case", "aLLowed.Example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"by wildcard", "a.wild.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"for another port", "ssh.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"the sandbox itself", "localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"a name below it", "shop.localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"in mixed case below it", "A.b.LocalHost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"the sandbox by its host name", "sandbox.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"a name of distributions", "ip6-localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"itself without IPv6", "localhost.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{"no IPv6", "allowed.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{"no HTTPS record", "allowed.example.", 65, dnsmessage.RCodeSuccess, ""},
		{"no SVCB record", "allowed.example.", 64, dnsmessage.RCodeSuccess, ""},
		{"no TXT record", "allowed.example.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, ""},
		{"everything", "allowed.example.", 255, dnsmessage.RCodeSuccess, ""},
		{"another name", "secret.exfil.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"TXT of another name", "secret.exfil.example.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, ""},
		{"below an allowed name", "secret.allowed.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"above a wildcard", "wild.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"a search domain", "allowed.example.corp.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"IPv6 of another name", "other.exfil.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeNameError, ""},
		{"reverse", "10.113.0.203.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"an address", "203.0.113.10.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"a NUL", "evil\x00.wild.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"similar to it", "notlocalhost.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"the root", ".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := askUDP(t, l, question(t, tc.host, tc.kind))
			assert.Equal(t, m.ID, uint16(4711))
			assert.Assert(t, m.Response)
			assert.Equal(t, m.RCode, tc.code)
			assert.Equal(t, m.Questions[0].Name.String(), tc.host, "the question comes back letter by letter")
			if tc.address == "" {
				assert.Equal(t, len(m.Answers), 0)
				return
			}
			assert.Equal(t, len(m.Answers), 1)
			assert.Equal(t, m.Answers[0].Header.TTL, uint32(5))
			a := m.Answers[0].Body.(*dnsmessage.AResource)
			assert.Equal(t, net.IP(a.A[:]).String(), tc.address)
		})
	}
	d := l.decisions(t)
	assert.Equal(t, d[0].Host, "secret.exfil.example")
	for _, line := range d {
		assert.Assert(t, !strings.HasSuffix(line.Host, ".arpa"), "nobody cares for %s", line.Host)
		assert.Equal(t, line.Via, "dns")
		assert.Equal(t, line.Decision, egress.Refused, "only refusals are worth a line: %+v", line)
	}
	assert.Equal(t, len(l.dials), 0)
}

func TestResolverOverTCP(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	conn := dial(t, l.at.DNSOverTCP)
	for range 2 {
		query := question(t, "allowed.example.", dnsmessage.TypeA)
		framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
		for _, b := range framed {
			_, err := conn.Write([]byte{b})
			assert.NilError(t, err)
		}
		var length [2]byte
		_, err := io.ReadFull(conn, length[:])
		assert.NilError(t, err)
		answer := make([]byte, binary.BigEndian.Uint16(length[:]))
		_, err = io.ReadFull(conn, answer)
		assert.NilError(t, err)
		var m dnsmessage.Message
		assert.NilError(t, m.Unpack(answer))
		assert.Equal(t, len(m.Answers), 1)
	}
	for _, junk := range []string{"\xff\xff" + strings.Repeat("x", 70000), "\x00\x02ab"} {
		other := dial(t, l.at.DNSOverTCP)
		go func() { _, _ = io.WriteString(other, junk) }()
		answer, _ := io.ReadAll(other)
		assert.Equal(t, len(answer), 0)
	}
}

func TestResolverRejectsMalformedQueries(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	assert.Assert(t, l.answer(nil) == nil)
	assert.Assert(t, l.answer([]byte("short")) == nil)
	response := question(t, "allowed.example.", dnsmessage.TypeA)
	response[2] |= 0x80
	assert.Assert(t, l.answer(response) == nil, "answering answers goes round in circles")

	code := func(query []byte) dnsmessage.RCode {
		var m dnsmessage.Message
		assert.NilError(t, m.Unpack(l.answer(query)))
		assert.Equal(t, len(m.Answers), 0)
		return m.RCode
	}
	update := question(t, "allowed.example.", dnsmessage.TypeA)
	update[2] |= 5 << 3
	assert.Equal(t, code(update), dnsmessage.RCodeNotImplemented)
	none := question(t, "allowed.example.", dnsmessage.TypeA)
	none[5] = 0
	assert.Equal(t, code(none), dnsmessage.RCodeFormatError)
	cut := question(t, "allowed.example.", dnsmessage.TypeA)
	assert.Equal(t, code(cut[:len(cut)-3]), dnsmessage.RCodeFormatError)
}

func FuzzAnswer(f *testing.F) {
	f.Add(question(f, "allowed.example.", dnsmessage.TypeA))
	f.Add(question(f, "secret.exfil.example.", dnsmessage.TypeTXT))
	f.Add([]byte{})
	f.Add(make([]byte, 12))
	l := newLab(f, []string{"allowed.example"})
	f.Fuzz(func(t *testing.T, query []byte) {
		answer := l.answer(query)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		assert.NilError(t, m.Unpack(answer))
		assert.Assert(t, m.Response && len(m.Answers) <= 1)
		if len(m.Answers) == 1 {
			assert.Assert(t, strings.EqualFold(m.Answers[0].Header.Name.String(), "allowed.example."))
		}
	})
}
