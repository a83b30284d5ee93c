package plugin

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// spareConnections are what a command in a running sandbox uses besides its first connection: one
	// for the second of two requests at the same time, and one for the streams of its process.
	spareConnections = 2
	// spareExpires is how long a connection may be unused. An older one may be dead.
	spareExpires = 10 * time.Second
)

// dialer connects to an engine on another machine, where a new connection takes several round trips:
// some are opened ahead.
type dialer struct {
	dial   func(context.Context) (net.Conn, error) // which need not end with the context
	spares int
	// loggedIn reports whether new connections use a login that exists; nil if they need none.
	loggedIn func(context.Context) bool

	mu    sync.Mutex
	spare []<-chan dialed
}

// dialed is a new connection.
type dialed struct {
	conn net.Conn
	err  error
}

// begin opens the first connection, and the spare ones beside it. If the first one logs in, they are
// opened by the function that is returned, to be called when it works.
func (d *dialer) begin(ctx context.Context) (connected func()) {
	d.ahead(ctx, 1)
	rest := make(chan int, 1)
	go func() {
		n := d.spares
		if n > 0 && (d.loggedIn == nil || d.loggedIn(ctx)) {
			d.ahead(ctx, n)
			n = 0
		}
		rest <- n
	}()
	return func() { d.ahead(ctx, <-rest) }
}

// ahead opens connections for the next calls of DialContext.
func (d *dialer) ahead(ctx context.Context, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range n {
		d.spare = append(d.spare, d.open(ctx))
	}
	time.AfterFunc(spareExpires, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, c := range d.spare {
			go discard(c)
		}
		d.spare = nil
	})
}

// open connects in the background: connections outlive the request that they were made for.
func (d *dialer) open(ctx context.Context) <-chan dialed {
	opened := make(chan dialed, 1)
	go func() {
		conn, err := d.dial(context.WithoutCancel(ctx))
		opened <- dialed{conn, err}
	}()
	return opened
}

func discard(opened <-chan dialed) {
	if c := <-opened; c.err == nil {
		_ = c.conn.Close()
	}
}

// DialContext returns a spare connection, or else a new one.
func (d *dialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var opened <-chan dialed
	d.mu.Lock()
	if len(d.spare) > 0 {
		opened, d.spare = d.spare[0], d.spare[1:]
	}
	d.mu.Unlock()
	if opened == nil {
		opened = d.open(ctx)
	}
	select {
	case c := <-opened:
		return c.conn, c.err
	case <-ctx.Done():
		go discard(opened)
		return nil, ctx.Err()
	}
}
