package session

import (
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/docker-ralph/docker-ralph/wire"
)

const (
	// maxStreams is how many streams a connection may have. The relay in a sandbox opens fewer, but an agent may have
	// replaced it. Each can have a window of bytes in memory.
	maxStreams = 256
	// peerTimeout bounds how long the beginning of a stream may take.
	peerTimeout = 10 * time.Second
)

// peerConn is a connection of a process in the sandbox.
type peerConn struct {
	net.Conn
	peer wire.Peer
}

// listener accepts the streams of a connection, once they have said who is at the other end.
type listener struct {
	session *yamux.Session
	conns   chan net.Conn
}

func listen(session *yamux.Session) *listener {
	l := &listener{session, make(chan net.Conn)}
	go l.run()
	return l
}

// run accepts streams until the connection breaks. Too many break it.
func (l *listener) run() {
	defer func() { _ = l.session.Close() }()
	for {
		stream, err := l.session.AcceptStream()
		if err != nil || l.session.NumStreams() > maxStreams {
			return
		}
		go l.admit(stream)
	}
}

func (l *listener) admit(stream *yamux.Stream) {
	conn, ok := readPeer(stream)
	if !ok {
		_ = stream.Close()
		return
	}
	select {
	case l.conns <- conn:
	case <-l.session.CloseChan():
		_ = stream.Close()
	}
}

// readPeer reads the beginning of a stream.
func readPeer(stream net.Conn) (*peerConn, bool) {
	peer := make([]byte, wire.PeerSize)
	if stream.SetReadDeadline(time.Now().Add(peerTimeout)) != nil {
		return nil, false
	}
	if _, err := io.ReadFull(stream, peer); err != nil || stream.SetReadDeadline(time.Time{}) != nil {
		return nil, false
	}
	return &peerConn{stream, wire.PeerOf(peer)}, true
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.session.CloseChan():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error { return l.session.Close() }

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return l.session.Addr() }
