package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/hashicorp/yamux"
)

// Connections at once: of processes from outside, of the others of one command, and of all others. Those of an agent leave
// the loop some, and those of another command the agent.
const (
	maxLoopConnections  = 16
	maxAgentConnections = 48
	maxOtherConnections = 4 * maxAgentConnections
)

// sessionThreads are enough for the blocking calls of a session: see [ReserveThreads].
const sessionThreads = 8

// runSession relays connections of a socket to the host, over standard input and output: ID.
func runSession(ctx context.Context, args []string) error {
	if len(args) != 1 || !validID(args[0]) {
		return errUsage
	}
	runtime.GOMAXPROCS(1)
	ReserveThreads(sessionThreads)
	return newRelay(SessionSocket(args[0]), sandboxPeers()).run(ctx, stdio{os.Stdin, os.Stdout})
}

// stdio is a connection over standard input and output.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// relay passes connections of a socket to the host.
type relay struct {
	socket string
	peers  peers

	mu     sync.Mutex
	agents map[uint32]int // connections of agents, by their command
	others int            // all of them
	loops  int            // of processes from outside
}

func newRelay(socket string, p peers) *relay {
	return &relay{socket: socket, peers: p, agents: map[uint32]int{}}
}

// take counts a connection, unless there are too many.
func (r *relay) take(peer wire.Peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if peer.Outside {
		free := r.loops < maxLoopConnections
		if free {
			r.loops++
		}
		return free
	}
	free := r.agents[peer.Command] < maxAgentConnections && r.others < maxOtherConnections
	if free {
		r.agents[peer.Command]++
		r.others++
	}
	return free
}

// release undoes take.
func (r *relay) release(peer wire.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if peer.Outside {
		r.loops--
		return
	}
	r.others--
	if r.agents[peer.Command]--; r.agents[peer.Command] == 0 {
		delete(r.agents, peer.Command)
	}
}

// run relays until the host is gone: its end of the connection is closed, or does not answer.
func (r *relay) run(ctx context.Context, host io.ReadWriteCloser) error {
	listener, err := listenSocket(ctx, r.socket)
	if errors.Is(err, errTaken) {
		_, err = io.WriteString(host, wire.SessionTaken)
		return err
	}
	if err != nil {
		return fmt.Errorf("listening for the session: %w", err)
	}
	defer func() { _ = listener.Close() }()
	defer removeSocket(r.socket)()
	if _, err := io.WriteString(host, wire.SessionReady); err != nil {
		return fmt.Errorf("connecting the session: %w", err)
	}
	session, err := yamux.Client(host, sessionConfig())
	if err != nil {
		return fmt.Errorf("connecting the session: %w", err)
	}
	go r.accept(listener, session)
	// Not its Close, which would wait for the end of the input.
	<-session.CloseChan()
	return nil
}

// sessionConfig is patient: the host finds a dead connection sooner.
func sessionConfig() *yamux.Config {
	config := yamux.DefaultConfig()
	config.KeepAliveInterval, config.ConnectionWriteTimeout = 30*time.Second, 30*time.Second
	config.LogOutput = io.Discard
	return config
}

// accept accepts connections until the listener is closed.
func (r *relay) accept(l *net.UnixListener, session *yamux.Session) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(10 * time.Millisecond) // no file descriptor is free
			continue
		}
		peer := r.peers.of(conn)
		if !r.take(peer) {
			_ = conn.Close()
			continue
		}
		go func() {
			defer r.release(peer)
			relayConn(session, conn, peer)
		}()
	}
}

// lingering is how long a connection stays open whose other half the host has closed.
const lingering = 10 * time.Second

// relayConn carries bytes both ways until both sides have ended.
func relayConn(session *yamux.Session, conn *net.UnixConn, peer wire.Peer) {
	defer func() { _ = conn.Close() }()
	opened, err := session.OpenStream()
	if err != nil {
		return
	}
	stream := halfStream{opened}
	defer func() { _ = stream.Close() }()
	if _, err := stream.Write(peer.AppendTo(nil)); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		carry(conn, stream)
		_ = conn.SetReadDeadline(time.Now().Add(lingering))
	})
	carry(stream, conn)
	back.Wait()
}

// halfStream is a stream whose Close ends only what it sends.
type halfStream struct{ *yamux.Stream }

// CloseWrite is that of a [net.UnixConn].
func (s halfStream) CloseWrite() error { return s.Close() }

// removeSocket returns a function that removes a socket, unless a later relay has replaced it.
func removeSocket(path string) func() {
	ours, err := os.Lstat(path)
	return func() {
		if now, errNow := os.Lstat(path); err == nil && errNow == nil && os.SameFile(ours, now) {
			_ = os.Remove(path)
		}
	}
}
