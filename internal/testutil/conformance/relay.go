//go:build unix

package conformance

import (
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/yamux"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// sessionScript enters the directory of the sockets.
const sessionScript = "cd " + wire.SessionDir + " 2>/dev/null || cd ~/.ralph-session; "

// sayThrough connects to a socket, and prints the answer to a line.
const sayThrough = `perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!"; $s->print("hello\n"); $s->shutdown(1); print <$s>' `

func (s Suite) testRelay(t *testing.T) {
	d, ok := s.Driver.(lifecycle.Relayer)
	if !ok {
		t.Skip("the driver has no sessions")
	}
	sb, spec := s.Up(t)
	loop := wire.PeerAgent
	if d.RelaysPeers() {
		loop = wire.PeerLoop
	}
	for range 2 { // the same session can be connected again
		conn, err := d.Relay(t.Context(), sb, "SESSION")
		assert.NilError(t, err)
		ready := make([]byte, len(wire.SessionReady))
		_, err = io.ReadFull(conn, ready)
		assert.NilError(t, err)
		assert.Equal(t, string(ready), wire.SessionReady)
		session, err := yamux.Server(conn, nil)
		assert.NilError(t, err)
		go answer(session)

		out := s.run(t, sb, spec, sessionScript+"exec "+sayThrough+"SESSION.sock")
		assert.Equal(t, out, fmt.Sprintf("%chello\n", loop), "from a process that the driver has started")
		out = s.run(t, sb, spec, sessionScript+sayThrough+"SESSION.sock; true")
		assert.Equal(t, out, fmt.Sprintf("%chello\n", wire.PeerAgent), "from its child")

		s.busy(t, sb, false)
		becomes(t, "a session is no command", func() (string, bool) { // the last command may still be ending
			running, err := s.Driver.Dispatches(t.Context(), sb)
			assert.NilError(t, err)
			return fmt.Sprintf("%+v", running), len(running) == 0
		})
		assert.NilError(t, session.Close())
	}
	becomes(t, "the socket is gone", func() (string, bool) {
		out := s.run(t, sb, spec, sessionScript+"ls")
		return out, out == ""
	})
	out := s.run(t, sb, spec, "touch "+wire.SessionDir+"/x 2>/dev/null || echo denied")
	assert.Equal(t, out, "denied\n", "who may create sockets")

	_, err := io.ReadAll(must(d.Relay(t.Context(), sb, "no/id")))
	assert.ErrorContains(t, err, "invalid arguments")
}

// answer sends what each stream says back.
func answer(session *yamux.Session) {
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(stream, stream)
			_ = stream.Close()
		}()
	}
}

func must(conn io.ReadWriteCloser, err error) io.ReadWriteCloser {
	if err != nil {
		panic(err)
	}
	return conn
}
