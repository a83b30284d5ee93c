package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// sandbox is a driver whose sandbox is in this process.
type sandbox struct {
	relays chan func(net.Conn) error // what answers the next connections
	state  lifecycle.State
}

func (s *sandbox) Relay(ctx context.Context, _ lifecycle.Sandbox, _ string) (io.ReadWriteCloser, error) {
	select {
	case relay := <-s.relays:
		host, inside := net.Pipe()
		return host, relay(inside)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *sandbox) RelaysPeers() bool { return true }

func (s *sandbox) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{State: s.state}, nil
}

// listening is a relay whose end of the connection is sent to guests.
func listening(guests chan<- *yamux.Session) func(net.Conn) error {
	return func(conn net.Conn) error {
		go func() {
			_, _ = io.WriteString(conn, wire.SessionReady)
			config := yamux.DefaultConfig()
			config.LogOutput = io.Discard
			if guest, err := yamux.Client(conn, config); err == nil {
				guests <- guest
			}
		}()
		return nil
	}
}

// answering is a relay that sends some bytes and stays connected.
func answering(text string) func(net.Conn) error {
	return func(conn net.Conn) error {
		go func() { _, _ = io.WriteString(conn, text) }()
		return nil
	}
}

func ended(conn net.Conn) error { return conn.Close() }

func failing(net.Conn) error { return errors.New("no such container") }

type peerKey struct{}

// fixture is a session whose handler answers with the peer.
type fixture struct {
	*sandbox
	guests   chan *yamux.Session
	reports  chan string
	requests chan *http.Request // that are held until their context ends
	connector
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		sandbox: &sandbox{make(chan func(net.Conn) error, 10), lifecycle.Running},
		guests:  make(chan *yamux.Session, 10), reports: make(chan string, 10), requests: make(chan *http.Request),
	}
	f.connector = connector{f.sandbox, lifecycle.Sandbox{Name: "sb"}, "ID", timing{
		ready: time.Minute, keepAlive: time.Minute, pause: time.Millisecond, maxPause: 2 * time.Millisecond, stable: time.Minute,
	}, func(ctx context.Context, peer wire.Peer) context.Context {
		return context.WithValue(ctx, peerKey{}, peer)
	}}
	return f
}

func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/held" {
		f.requests <- r
		<-r.Context().Done()
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%v %s", r.Context().Value(peerKey{}), body)
}

func (f *fixture) serve(t *testing.T) *Session {
	t.Helper()
	s, err := serve(t.Context(), f.connector, f, func(text string) { f.reports <- text })
	assert.NilError(t, err)
	t.Cleanup(s.Close)
	return s
}

// post sends a request through a stream, as a process of the sandbox does.
func post(t *testing.T, guest *yamux.Session, peer wire.Peer, path, body string) (string, error) {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		stream, err := guest.OpenStream()
		if err == nil {
			_, err = stream.Write(peer.AppendTo(nil))
		}
		return stream, err
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://host"+path, strings.NewReader(body))
	assert.NilError(t, err)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return string(answer), err
}

func TestRequests(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	f.serve(t)
	guest := <-f.guests
	big := strings.Repeat("0123456789", 1<<17)
	for _, tc := range []struct {
		peer wire.Peer
		want string
	}{{wire.Peer{Outside: true, Command: 1 << 20}, "{true 1048576} "}, {wire.Peer{Command: 7}, "{false 7} "}, {wire.Peer{}, "{false 0} "}} {
		answer, err := post(t, guest, tc.peer, "/", big)
		assert.NilError(t, err)
		assert.Assert(t, answer == tc.want+big, "%.20q… of %d bytes", answer, len(answer))
	}
}

// A stream without a beginning does not delay the others.
func TestSilentStream(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	f.serve(t)
	guest := <-f.guests
	_, err := guest.OpenStream()
	assert.NilError(t, err)
	answer, err := post(t, guest, wire.Peer{Outside: true}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, answer, "{true 0} x")
}

func TestLostConnectionIsMadeAgain(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	f.serve(t)
	first := <-f.guests
	for _, relay := range []func(net.Conn) error{failing, failing, ended, answering("oops\n" + strings.Repeat(" ", 2*maxQuoted)), listening(f.guests)} {
		f.relays <- relay
	}
	assert.NilError(t, first.Close())
	assert.Equal(t, <-f.reports, "Warning: lost the connection to sandbox sb, connecting again: no such container")
	assert.Equal(t, <-f.reports, "Connected to sandbox sb again")
	answer, err := post(t, <-f.guests, wire.Peer{}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, answer, "{false 0} x")
}

// The first attempt to connect again is not reported if it is successful.
func TestShortLossIsNotReported(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	f.serve(t)
	first := <-f.guests
	f.relays <- listening(f.guests)
	assert.NilError(t, first.Close())
	_, err := post(t, <-f.guests, wire.Peer{}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, len(f.reports), 0)
}

// A session that another process serves is served after its end, and nothing is reported.
func TestSessionOfAnotherProcess(t *testing.T) {
	f := newFixture(t)
	for range 4 {
		f.relays <- answering(wire.SessionTaken)
	}
	f.relays <- listening(f.guests)
	f.serve(t)
	answer, err := post(t, <-f.guests, wire.Peer{Outside: true}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, answer, "{true 0} x")
	assert.Equal(t, len(f.reports), 0)
}

// A connection would start a microVM that was stopped.
func TestStoppedSandboxIsNotStarted(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	f.state = lifecycle.Stopped
	s := f.serve(t)
	f.relays <- listening(f.guests)
	assert.NilError(t, (<-f.guests).Close())
	assert.Equal(t, <-f.reports, "Warning: lost the connection to sandbox sb, connecting again: the sandbox is stopped")
	s.Close()
	assert.Equal(t, len(f.relays), 1)
}

// A process that does not read or answer is found by its missing sign of life.
func TestFrozenSandbox(t *testing.T) {
	f := newFixture(t)
	f.keepAlive = 20 * time.Millisecond
	f.relays <- answering(wire.SessionReady) // no more
	f.relays <- listening(f.guests)
	f.serve(t)
	answer, err := post(t, <-f.guests, wire.Peer{Outside: true}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, answer, "{true 0} x")
}

func TestCloseEndsRequests(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	s := f.serve(t)
	guest := <-f.guests
	failed := make(chan error, 1)
	go func() {
		_, err := post(t, guest, wire.Peer{Outside: true}, "/held", "")
		failed <- err
	}()
	held := <-f.requests
	s.Close()
	assert.ErrorIs(t, held.Context().Err(), context.Canceled)
	assert.Assert(t, <-failed != nil)
	<-guest.CloseChan()
	s.Close() // again is fine
	assert.Equal(t, len(f.reports), 0)
}

func TestFailedConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		relay func(net.Conn) error
		want  string
	}{
		"no exec":        {failing, "connecting to sandbox sb: no such container"},
		"it ends":        {ended, "connecting to sandbox sb: ralph has ended"},
		"another answer": {answering("OCI runtime exec failed: exec failed\r\n" + strings.Repeat(" ", maxQuoted)), `connecting to sandbox sb: unexpected answer of ralph: "OCI runtime exec failed: exec failed"`},
		"no answer":      {answering(""), "connecting to sandbox sb: no answer of ralph within 20ms"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ready = 20 * time.Millisecond
			f.relays <- tc.relay
			_, err := serve(t.Context(), f.connector, f, nil)
			assert.Error(t, err, tc.want)
		})
	}
}

func TestCanceledConnection(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.relays <- func(net.Conn) error { cancel(); return nil }
	_, err := serve(ctx, f.connector, f, nil)
	assert.ErrorIs(t, err, context.Canceled)
}

// The session of a command outlives the context with which it began.
func TestSessionOutlivesItsContext(t *testing.T) {
	f := newFixture(t)
	f.relays <- listening(f.guests)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := serve(ctx, f.connector, f, nil)
	assert.NilError(t, err)
	defer s.Close()
	cancel()
	answer, err := post(t, <-f.guests, wire.Peer{Outside: true}, "/", "x")
	assert.NilError(t, err)
	assert.Equal(t, answer, "{true 0} x")
}
