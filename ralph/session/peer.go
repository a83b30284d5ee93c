package session

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire"
)

type peerKey struct{}

// WithPeer adds the process at the other end to the context of a connection. The server's ConnContext calls it.
func WithPeer(ctx context.Context, peer wire.Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, peer)
}

func peerOf(r *http.Request) wire.Peer {
	peer, _ := r.Context().Value(peerKey{}).(wire.Peer)
	return peer
}

// isCommand reports whether a request is from the command itself. Its connection does not suffice: other programs that are
// started from outside of the sandbox have such ones, and an agent can have replaced them.
func (d *Door) isCommand(r *http.Request) bool {
	if d.options.Peers && !peerOf(r).Outside {
		return false
	}
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return found && d.options.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(d.options.Token)) == 1
}

// begin records the PID of the command, from which its agents descend.
func (d *Door) begin(r *http.Request) (status int, body []byte) {
	if !d.isCommand(r) {
		return refuse(http.StatusForbidden, errors.New("only the command of the session may do this"))
	}
	if pid := peerOf(r).Command; d.pid.Swap(pid) != pid && d.options.Began != nil {
		d.options.Began(pid)
	}
	return encode(nil)
}

// checkDescent refuses requests of processes that another command of the sandbox has started: they could act as this
// one's agent.
func (d *Door) checkDescent(r *http.Request) error {
	pid := d.pid.Load()
	switch {
	case !d.options.Peers:
		return nil
	case pid == 0:
		panic(http.ErrAbortHandler) // the command has not begun: without an answer, the client repeats it
	case peerOf(r).Command != pid:
		return errors.New("only a process that the command of the session has started may do this")
	}
	return nil
}
