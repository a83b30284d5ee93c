package sandboxcli

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/moby/moby/client"
)

// engine is a client of a Docker Engine with access to its connections, which the
// background process keeps open.
type engine struct {
	*client.Client
	mu   sync.Mutex
	last net.Conn
}

func (c *call) engine() (*engine, error) {
	if c.settings.Engine == "" {
		return nil, c.fail("this fake needs the address of an engine in its settings")
	}
	address, err := client.ParseHostURL(c.settings.Engine)
	if err != nil {
		return nil, err
	}
	where := address.Host
	if address.Scheme == "unix" {
		where = address.Path
		if where == "" {
			where = address.Host
		}
	}
	e := &engine{}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, address.Scheme, where)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.last = conn
		return conn, err
	}
	e.Client, err = client.New(client.WithHost(c.settings.Engine), client.WithDialContext(dial))
	return e, err
}

// share passes the newest connection to the background process.
func (c *call) share(e *engine) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	conn, ok := e.last.(syscall.Conn)
	if !ok {
		return fmt.Errorf("passing on a connection: %T has no descriptor", e.last)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("passing on a connection: %w", err)
	}
	// It stays open until this process ends: that is what the other side waits for.
	daemon, err := c.dialDaemon()
	if err != nil {
		return err
	}
	c.kept = daemon
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = sendFDs(daemon, request{Hold: true}, int(fd)) }); err != nil {
		return fmt.Errorf("passing on a connection: %w", err)
	}
	return sent
}
