package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// queryDenyLog returns the deny log since a mark.
func (l *lab) queryDenyLog(t *testing.T, mark string) denylog.Answer {
	t.Helper()
	status, body := get(t, http.DefaultClient, l.routeURL(denylog.Path+"?"+denylog.Since+"="+mark))
	assert.Equal(t, status, http.StatusOK, body)
	answer, err := denylog.Read([]byte(body))
	assert.NilError(t, err)
	return answer
}

func TestASandboxAsksWhatWasRefused(t *testing.T) {
	l := newLab(t, []string{"allowed.example", "inside.example"})
	l.point("inside.example", "10.0.0.1")
	client := l.client(t)
	try := func(address string) {
		if response, err := client.Get(address); err == nil {
			_ = response.Body.Close()
		}
	}
	try("https://early.example/")
	begin := l.queryDenyLog(t, "")
	assert.DeepEqual(t, begin, denylog.Answer{Mark: begin.Mark})

	try("https://blocked.example/")
	try("https://blocked.example/")
	try("http://other.example:8000/")
	try("https://blocked.example/")
	try("https://1.2.3.4/")
	try("https://inside.example/")
	try("https://allowed.example/") // nobody is there
	query := dnsmessage.Question{Name: dnsmessage.MustNewName("named.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	l.answer(pack(dnsmessage.Header{ID: 1}, &query, nil))
	exchange(t, l.at.Proxy, "CONNECT \x1b]0;title\x07.example:443 HTTP/1.1\r\n\r\n")
	first := l.queryDenyLog(t, begin.Mark)
	assert.DeepEqual(t, first.Refused, []denylog.Refusal{
		{Host: "blocked.example", Port: 443, Times: 3},
		{Host: "other.example", Port: 8000, Times: 1},
		{Host: "1.2.3.4", Port: 443, Times: 1},
		{Host: "inside.example", Port: 443, Times: 1},
		{Host: "named.example", Times: 1},
	})
	assert.DeepEqual(t, l.queryDenyLog(t, begin.Mark), first) // asking changes nothing

	// Only what came since, and nothing that was allowed meanwhile.
	try("https://blocked.example/")
	try("https://other.example/")
	l.handle(Order{Do: "allow", Rules: []string{"other.example"}})
	second := l.queryDenyLog(t, first.Mark)
	assert.DeepEqual(t, second.Refused, []denylog.Refusal{{Host: "blocked.example", Port: 443, Times: 1}})
	l.handle(Order{Do: "allow", Rules: []string{"blocked.example", "inside.example"}})
	assert.DeepEqual(t, l.queryDenyLog(t, begin.Mark).Refused, []denylog.Refusal{
		{Host: "other.example", Port: 8000, Times: 1},
		{Host: "1.2.3.4", Port: 443, Times: 1},
		{Host: "inside.example", Port: 443, Times: 1}, // its address is what is refused
		{Host: "named.example", Times: 1},
	})
	assert.Equal(t, len(l.queryDenyLog(t, second.Mark).Refused), 0)
	assert.Equal(t, len(l.queryDenyLog(t, "anotherone.7").Refused), 5, "after a restart everything is new")
}

func TestAskingChangesNothing(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, l.routeURL(denylog.Path), strings.NewReader("x"))
		assert.NilError(t, err)
		response, err := http.DefaultClient.Do(r)
		assert.NilError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, response.StatusCode, http.StatusMethodNotAllowed, method)
	}
	for _, path := range []string{"/.refused/", "/.refused/x", "/%2Erefused", "/.Refused"} {
		status, _ := get(t, http.DefaultClient, l.routeURL(path))
		assert.Check(t, status != http.StatusOK, path)
	}
}

func TestWhatIsRememberedOfRefusalsIsBounded(t *testing.T) {
	s, err := New(Config{Start: egress.Start{Address: netip.MustParseAddr("127.0.0.1"), Policy: egress.Policy{Mode: egress.Deny}}, Log: &output.Buffer{}})
	assert.NilError(t, err)
	mark := s.refusedSince("").Mark
	for i := range 3 * maxRefused {
		s.decide("connect", fmt.Sprintf("h%d.example", i), 443)
	}
	for range 100_000 {
		s.decide("connect", "again.example", 443)
	}
	answer := s.refusedSince(mark)
	assert.Equal(t, len(s.refused.runs), maxRefused)
	assert.Equal(t, len(answer.Refused), denylog.MaxTargets)
	total := answer.More
	for _, r := range answer.Refused {
		total += r.Times
	}
	assert.Equal(t, total, 3*maxRefused+100_000)

	mark = answer.Mark
	s.decide("connect", "again.example", 443)
	s.decide("connect", strings.Repeat("a", 1000), 443)
	answer = s.refusedSince(mark)
	assert.DeepEqual(t, answer.Refused, []denylog.Refusal{{Host: "again.example", Port: 443, Times: 1}})
	assert.Equal(t, answer.More, 1)
	for _, wrong := range []string{"x", ".", s.refused.id, s.refused.id + ".", s.refused.id + ".-1", s.refused.id + ".99999999999999999999"} {
		assert.Check(t, len(s.refusedSince(wrong).Refused) > 0, wrong)
	}
	assert.Check(t, is.Len(s.refusedSince(s.refused.id+".9999999999").Refused, 0))
}

// The sandbox reads names by rules of its own, and they must be the same.
func TestProxyAndSandboxValidateNamesAlike(t *testing.T) {
	for _, host := range []string{
		"a", "a.example", "_srv.a-b.example", "xn--bcher-kva.example", "0x7f.example", "4.example", "a.4x", strings.Repeat("a", 63) + ".b",
		"1.2.3.4", "::1", "2001:db8::1", "", ".", "a.", ".a", "a..b", "-a", "a-.b", "A.example", "a b", "a\n", "ä", "0x7f.1", "127.1", "a.0x1f", "0x",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a", "[::1]", "::1%eth0", "::FFFF:1.2.3.4", "a:80",
	} {
		name, err := egress.Normalise(host)
		addr, notAddress := netip.ParseAddr(host)
		want := err == nil && name == host || notAddress == nil && addr.Zone() == "" && addr.String() == host
		assert.Check(t, is.Equal(denylog.Refusal{Host: host, Times: 1}.Valid(), want), "%q", host)
	}
}
