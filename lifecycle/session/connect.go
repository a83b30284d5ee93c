package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// connector connects to the relay of a session.
type connector struct {
	driver  lifecycle.Relayer
	sandbox lifecycle.Sandbox
	id      string
	timing
	mark func(context.Context, wire.Peer) context.Context // [session.WithPeer]
}

// connect starts the relay in the sandbox. The connection ends with ctx.
func (c connector) connect(ctx context.Context) (*yamux.Session, error) {
	conn, err := c.driver.Relay(ctx, c.sandbox, c.id)
	if err != nil {
		return nil, err
	}
	if err := awaitReady(ctx, conn, c.ready); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	config := yamux.DefaultConfig()
	config.KeepAliveInterval, config.ConnectionWriteTimeout = c.keepAlive, c.keepAlive
	config.StreamCloseTimeout = requestTimeout
	config.LogOutput = io.Discard
	return yamux.Server(&guard{ReadWriteCloser: conn}, config)
}

// looker is a driver that looks sandboxes up.
type looker interface {
	Lookup(ctx context.Context, name string) (lifecycle.Sandbox, error)
}

// reconnect is connect for a sandbox that may have been stopped. A connection would start a microVM.
func (c connector) reconnect(ctx context.Context) (*yamux.Session, error) {
	if d, ok := c.driver.(looker); ok {
		sb, err := d.Lookup(ctx, c.sandbox.Name)
		if err != nil {
			return nil, err
		}
		if sb.State != lifecycle.Running {
			return nil, fmt.Errorf("the sandbox is %s", sb.State)
		}
	}
	return c.connect(ctx)
}

// awaitReady waits until the relay listens.
func awaitReady(ctx context.Context, conn io.ReadCloser, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer of ralph within %s", timeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := readReady(conn)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// errTaken means that another process on the host serves the session, or has not lost its connection yet.
var errTaken = errors.New("another process serves the session")

// maxQuoted is how much of another answer is read, in bytes.
const maxQuoted = 300

// readReady reads the line with which a relay begins. Instead of it, the engine or a program may explain why there
// is no relay.
func readReady(r io.Reader) error {
	line := make([]byte, len(wire.SessionReady))
	n, err := io.ReadFull(r, line)
	switch string(line[:n]) {
	case wire.SessionReady:
		return nil
	case wire.SessionTaken:
		return errTaken
	}
	said := line[:n]
	if err == nil {
		rest, _ := io.ReadAll(io.LimitReader(r, maxQuoted)) // it is only quoted
		said = append(said, rest...)
	}
	switch words := strings.Join(strings.Fields(string(said)), " "); {
	case words != "":
		return fmt.Errorf("unexpected answer of ralph: %q", words)
	case errors.Is(err, io.EOF):
		return errors.New("ralph has ended")
	default:
		return fmt.Errorf("reading the answer of ralph: %w", err)
	}
}
