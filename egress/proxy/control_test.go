package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

func (l *lab) order(tb testing.TB, o Order) (Answer, error) {
	tb.Helper()
	conn, err := net.Dial("unix", l.at.Control.Addr().String())
	assert.NilError(tb, err)
	defer func() { _ = conn.Close() }()
	return ask(conn, o)
}

func TestChangesTakeEffectAtOnce(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.serveTLS(t, "allowed.example", hello("hello"))
	l.serveTLS(t, "new.example", hello("new"))

	_, status, _ := connectTo(t, l, "new.example:443")
	assert.Equal(t, status, 403)
	answer, err := l.order(t, Order{Do: "allow", Rules: []string{"new.example"}, Origin: "docker ralph network allow"})
	assert.NilError(t, err)
	assert.Equal(t, len(answer.Policy.Rules), 2)
	status, _ = get(t, l.client(t), "https://new.example/")
	assert.Equal(t, status, 200)
	assert.Equal(t, l.lastDecision(t).Why, "docker ralph network allow")

	answer, err = l.order(t, Order{Do: "policy"})
	assert.NilError(t, err)
	assert.Equal(t, answer.Policy.Rules[1].Rule.String(), "new.example")

	_, err = l.order(t, Order{Do: "deny", Rules: []string{"new.example"}, Origin: "user"})
	assert.NilError(t, err)
	_, status, body := connectTo(t, l, "new.example:443")
	assert.Equal(t, status, 403)
	assert.Assert(t, cmp.Contains(body, "denied by user"))

	answer, err = l.order(t, Order{Do: "stats"})
	assert.NilError(t, err)
	for _, h := range answer.Stats.Hosts {
		if h.Host == "new.example" {
			assert.Equal(t, h.Refused, int64(2))
			assert.Equal(t, h.Allowed, int64(1))
		}
	}
}

// tunnel opens one to a server that says nothing.
func (l *lab) tunnel(t *testing.T, to string) net.Conn {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	l.put(to, silent)
	conn, status, _ := connectTo(t, l, to)
	assert.Equal(t, status, 200)
	return conn
}

func TestDenyCutsWhatIsOpen(t *testing.T) {
	l := newLab(t, []string{"db.example:5432", "allowed.example"})
	conn := l.tunnel(t, "db.example:5432")

	waiting := make(chan struct{})
	l.servePlain(t, "allowed.example:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(waiting)
	}))
	response, err := l.client(t).Get("http://allowed.example/")
	assert.NilError(t, err)
	defer func() { _ = response.Body.Close() }()

	_, err = l.order(t, Order{Do: "deny", Rules: []string{"db.example", "allowed.example"}, Origin: "user"})
	assert.NilError(t, err)
	_, err = io.ReadAll(conn)
	assert.Assert(t, err == nil || !isTimeout(err), "the tunnel is still open: %v", err)
	<-waiting
	_, err = bufio.NewReader(response.Body).ReadByte()
	assert.Assert(t, err != nil)
}

// What was allowed since a proxy began holds for one run of its sandbox. What was
// refused holds on.
func TestResetLeavesNothingOpenThatWasClosed(t *testing.T) {
	l := newLab(t, []string{"db.example:5432", "first.example", "model.example"})
	conn := l.tunnel(t, "db.example:5432")
	for _, o := range []Order{
		{Do: "allow", Rules: []string{"new.example"}, Origin: "user"},
		{Do: "deny", Rules: []string{"first.example"}, Origin: "user"},
		{Do: "routes", Routes: []egress.Route{{Prefix: "/key", Target: "https://model.example", Exclusive: true, Headers: map[string]egress.Secret{"X-Key": "k"}}}},
	} {
		_, err := l.order(t, o)
		assert.NilError(t, err)
	}

	_, err := l.order(t, Order{Do: "reset"})
	assert.NilError(t, err)
	_, err = io.ReadAll(conn)
	assert.Assert(t, err == nil || !isTimeout(err), "the tunnel is still open: %v", err)
	for host, status := range map[string]int{"db.example:5432": 200, "new.example:443": 403, "first.example:443": 403, "model.example:443": 403} {
		_, got, _ := connectTo(t, l, host)
		assert.Check(t, cmp.Equal(got, status), host)
	}
	assert.Equal(t, len(l.routes.Load().byName), 0, "a key is left")
}

// A connection that was allowed and is just being made when everything is closed
// would otherwise be the one that stays open.
func TestResetClosesPendingConnections(t *testing.T) {
	l := newLab(t, []string{"db.example:5432"})
	place, ok := l.open.take()
	assert.Assert(t, ok)
	defer place.free()
	v := l.evaluate("connect", "db.example", 5432)
	assert.Assert(t, v.Allowed)
	_, err := l.order(t, Order{Do: "reset"})
	assert.NilError(t, err)
	assert.Assert(t, !l.hold(place, v, func() {}), "it may go on")

	later, ok := l.open.take()
	assert.Assert(t, ok)
	defer later.free()
	assert.Assert(t, l.hold(later, v, func() {}), "what comes afterwards may not")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestOnlyModelsAreOpenedUnderDeny(t *testing.T) {
	l := newLab(t, nil, func(c *Config) { c.Start.Policy.Mode = egress.Deny })
	_, err := l.order(t, Order{Do: "allow", Rules: []string{"model.example"}, Origin: "an endpoint"})
	assert.ErrorContains(t, err, "nothing but the agent's model")
	_, err = l.order(t, Order{Do: "routes", Rules: []string{"model.example"}})
	assert.NilError(t, err)
	assert.Assert(t, l.policy.Load().Decide("model.example", 443).Allowed)
}

// Endpoints are those of one command, also if the proxy began with them.
func TestEndpointsAreReplaced(t *testing.T) {
	endpoint := egress.Entry{Rule: egress.Rule{Host: "first.example"}, Origin: egress.EndpointOrigin, Model: true}
	l := newLab(t, []string{"allowed.example"}, func(c *Config) {
		c.Start.Policy.Rules = append(c.Start.Policy.Rules, endpoint)
	})
	open := func(want ...string) {
		t.Helper()
		for _, host := range []string{"allowed.example", "first.example", "second.example"} {
			assert.Check(t, cmp.Equal(l.policy.Load().Decide(host, 443).Allowed, slices.Contains(want, host)), host)
		}
	}
	open("allowed.example", "first.example")
	_, err := l.order(t, Order{Do: "routes", Rules: []string{"second.example"}})
	assert.NilError(t, err)
	open("allowed.example", "second.example")
	conn := l.tunnel(t, "second.example:443")
	_, err = l.order(t, Order{Do: "routes", Rules: []string{"third.example", "*"}})
	assert.ErrorContains(t, err, "matches every host")
	open("allowed.example", "second.example")
	_, err = l.order(t, Order{Do: "routes"})
	assert.NilError(t, err)
	open("allowed.example")
	_, err = io.ReadAll(conn)
	assert.Assert(t, err == nil || !isTimeout(err), "the tunnel is still open: %v", err)
	_, err = l.order(t, Order{Do: "reset"})
	assert.NilError(t, err)
	open("allowed.example")
}

func TestWrongOrders(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	for _, tc := range []struct {
		order Order
		err   string
	}{
		{Order{Do: "open"}, `no order "open"`},
		{Order{Do: "allow"}, "no rule was named"},
		{Order{Do: "allow", Rules: []string{"good.example", "*"}}, "matches every host"},
		{Order{Do: "deny", Rules: []string{"good.example=10.0.0.0/8"}}, "a range cannot be blocked"},
	} {
		_, err := l.order(t, tc.order)
		assert.ErrorContains(t, err, tc.err)
	}
	assert.Assert(t, !l.policy.Load().Decide("good.example", 443).Allowed, "half an order was obeyed")

	conn, err := net.Dial("unix", l.at.Control.Addr().String())
	assert.NilError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	assert.NilError(t, err)
	answer, _ := io.ReadAll(conn)
	assert.Equal(t, len(answer), 0)
}

func TestOrdersAtTheSameTime(t *testing.T) {
	l := newLab(t, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { l.handle(Order{Do: "allow", Rules: []string{fmt.Sprintf("h%d.example", i)}}) })
	}
	wg.Wait()
	assert.Equal(t, len(l.policy.Load().Rules), 20)
}

func TestStatsAreBounded(t *testing.T) {
	s := newStats()
	for i := range 3 * maxCounted {
		s.decision(egress.Verdict{Host: fmt.Sprintf("h%d.example", i)})
	}
	list := s.list()
	assert.Equal(t, len(list), maxCounted+1)
	var rest int64
	for _, h := range list {
		if h.Host == others {
			rest = h.Refused
		}
	}
	assert.Equal(t, rest, int64(2*maxCounted))
}

func TestLogLines(t *testing.T) {
	l := newLab(t, nil)
	l.decide("http", "evil\x1b]0;title\a\nhost.example", 80)
	line := l.log.String()
	assert.Equal(t, line[len(line)-1], byte('\n'))
	var fields map[string]any
	assert.NilError(t, json.Unmarshal([]byte(line), &fields))
	for _, r := range line[:len(line)-1] {
		assert.Assert(t, r >= 0x20 && r < 0x7f, "a control character is in the log: %q", line)
	}
	for _, name := range []string{"t", "via", "decision", "host", "port", "why"} {
		assert.Assert(t, fields[name] != nil, name)
	}
}
