package guest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/hashicorp/yamux"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

// relayed is the host's end of a relay that runs in this process.
type relayed struct {
	*yamux.Session
	pipe  net.Conn
	path  string
	ended chan error
}

func startRelay(t *testing.T, path string, p peers) relayed {
	t.Helper()
	host, sandbox := net.Pipe()
	r := relayed{pipe: host, path: path, ended: make(chan error, 1)}
	go func() { r.ended <- newRelay(path, p).run(t.Context(), sandbox) }()
	ready := make([]byte, len(wire.SessionReady))
	_, err := io.ReadFull(host, ready)
	assert.NilError(t, err)
	assert.Equal(t, string(ready), wire.SessionReady)
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	r.Session, err = yamux.Server(host, config)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// end closes the host's end.
func (r relayed) end(t *testing.T) {
	t.Helper()
	assert.NilError(t, r.Close())
	assert.NilError(t, <-r.ended)
}

func (r relayed) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := dialSocket(t.Context(), r.path)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRelayCarriesConnections(t *testing.T) {
	r := startRelay(t, filepath.Join(t.TempDir(), "ID.sock"), peers{})
	for i := range 3 {
		conn := r.dial(t)
		stream, err := r.AcceptStream()
		assert.NilError(t, err)
		big := strings.Repeat(fmt.Sprint(i), 1<<20)
		go func() {
			_, _ = io.WriteString(conn, big)
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		got, err := io.ReadAll(stream) // to the end of one half
		assert.NilError(t, err)
		assert.Assert(t, string(got) == "A\x00\x00\x00\x00"+big, "%d bytes", len(got))
		go func() {
			_, _ = io.WriteString(stream, big)
			_ = stream.Close()
		}()
		got, err = io.ReadAll(conn)
		assert.NilError(t, err)
		assert.Assert(t, string(got) == big, "%d bytes", len(got))
	}
	r.end(t)
	_, err := os.Lstat(r.path)
	assert.Assert(t, os.IsNotExist(err), "the socket remains: %v", err)
}

// The first byte is that of the peer, which a client cannot change.
func TestRelayNamesTheLoop(t *testing.T) {
	stat := fmt.Sprintf("%d (ralph) S 0 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 100 1000 100 1\n", os.Getpid())
	proc := fs.NewDir(t, "proc", fs.WithDir(fmt.Sprint(os.Getpid()), fs.WithFile("stat", stat)))
	r := startRelay(t, filepath.Join(t.TempDir(), "ID.sock"), peers{proc.Path(), true, 0})
	conn := r.dial(t)
	_, err := io.WriteString(conn, "AAA\n")
	assert.NilError(t, err)
	stream, err := r.AcceptStream()
	assert.NilError(t, err)
	line, err := bufio.NewReader(stream).ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, string(wire.Peer{Outside: true, Command: uint32(os.Getpid())}.AppendTo(nil))+"AAA\n")
	r.end(t)
}

func TestRelayClosesConnectionsOverTheLimit(t *testing.T) {
	r := startRelay(t, filepath.Join(t.TempDir(), "ID.sock"), peers{})
	for range maxAgentConnections {
		r.dial(t)
		_, err := r.AcceptStream()
		assert.NilError(t, err)
	}
	_, err := r.dial(t).Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	r.end(t)
}

// The agent of another command uses up its own connections.
func TestConnectionsOfEachCommand(t *testing.T) {
	r := newRelay("", peers{})
	use := func(peer wire.Peer, n int) {
		for range n {
			assert.Assert(t, r.take(peer))
		}
	}
	ours, theirs, outside := wire.Peer{Command: 1}, wire.Peer{Command: 2}, wire.Peer{Command: 1, Outside: true}
	use(theirs, maxAgentConnections)
	assert.Assert(t, !r.take(theirs))
	use(ours, maxAgentConnections)
	assert.Assert(t, !r.take(ours))
	use(outside, maxLoopConnections)
	assert.Assert(t, !r.take(outside))
	r.release(ours)
	r.release(outside)
	use(ours, 1)
	use(outside, 1)
	for peer := uint32(3); r.take(wire.Peer{Command: peer}); peer++ {
		assert.Assert(t, peer < 1000)
	}
	assert.Equal(t, r.others, maxOtherConnections)
}

// The socket of a long path is as usable as another. Two relays do not share one, and nobody has that of a dead one.
func TestRelayTakesAFreeSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("long", 30), "ID.sock")
	first := startRelay(t, path, peers{})
	host, sandbox := net.Pipe()
	refused := make(chan error, 1)
	go func() { refused <- newRelay(path, peers{}).run(t.Context(), sandbox) }()
	answer := make([]byte, len(wire.SessionTaken))
	_, err := io.ReadFull(host, answer)
	assert.NilError(t, err)
	assert.Equal(t, string(answer), wire.SessionTaken)
	assert.NilError(t, <-refused)
	first.dial(t)
	first.end(t)

	assert.NilError(t, os.WriteFile(path, nil, 0o600))
	second := startRelay(t, path, peers{})
	second.dial(t)
	_, err = second.AcceptStream()
	assert.NilError(t, err)
	info, err := os.Stat(path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o666))
	second.end(t)
}

func TestSessionSocketOfAMicroVM(t *testing.T) {
	if isContainer() {
		t.Skip("this is a container with sessions")
	}
	t.Setenv("HOME", "/home/una")
	assert.Equal(t, SessionSocket("ABC"), "/home/una/.ralph-session/ABC.sock")
	_, err := DialSession(t.Context(), "../x")
	assert.Error(t, err, `invalid session "../x"`)
}
