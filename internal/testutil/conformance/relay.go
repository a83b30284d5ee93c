//go:build unix

package conformance

import (
	"fmt"
	"io"
	"strconv"
	"strings"
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

// sayEscaped is the same between single quotes.
var sayEscaped = strings.ReplaceAll(sayThrough, "'", `'\''`)

func (s Suite) testRelay(t *testing.T) {
	d, ok := s.Driver.(lifecycle.Relayer)
	if !ok {
		t.Skip("the driver has no sessions")
	}
	sb, spec := s.Up(t)
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

		for _, tc := range []struct {
			name, script string
			command      bool // the peer is of a process that the driver has started
			outside      bool // or that process
		}{
			{"from a process that the driver has started", "echo $$; exec " + sayThrough + "SESSION.sock", true, true},
			{"from its child", "echo $$; " + sayThrough + "SESSION.sock; true", true, false},
			{"from its grandchild", "echo $$; (" + sayThrough + "SESSION.sock; true); true", true, false},
			{"from an orphan", "echo $$; (setsid sh -c 'sleep 0.5; " + sayEscaped + "SESSION.sock' &); sleep 1.5", false, false},
		} {
			pid, said, _ := strings.Cut(s.run(t, sb, spec, sessionScript+tc.script), "\n")
			assert.Assert(t, len(said) > wire.PeerSize, "%s: %q", tc.name, said)
			assert.Equal(t, said[wire.PeerSize:], "hello\n", tc.name)
			want := wire.Peer{}
			if n, err := strconv.Atoi(pid); d.RelaysPeers() && tc.command {
				assert.NilError(t, err)
				want = wire.Peer{Outside: tc.outside, Command: uint32(n)}
			}
			assert.Equal(t, wire.PeerOf([]byte(said)), want, tc.name)
		}

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
