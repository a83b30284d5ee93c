// Package slowlink forwards connections as a slow network would: with a delay, until it
// is cut or frozen. It needs no privileges and no support of the kernel.
package slowlink

import (
	"context"
	"net"
	"sync"
	"time"
)

// Link forwards connections from one address to another with a delay.
//
// Data arrives one delay after it was sent, and takes no time otherwise unless the bandwidth is
// limited. A connection takes a round trip to set up, as with TCP.
type Link struct {
	network, target string
	address         string
	ctx             context.Context // of connecting to the target
	cancel          context.CancelFunc

	mu       sync.Mutex
	delay    time.Duration
	rate     int          // bytes per second; 0 for no limit
	up, down time.Time    // when all that was sent is on its way
	listener net.Listener // nil while the link is cut
	conns    map[*conn]struct{}
	thawed   chan struct{} // closed unless the link is frozen
	closed   bool
	stats    Stats
	clock    clock // its client's count is stats.Sequential
	running  sync.WaitGroup
}

// Stats counts what a link has forwarded.
type Stats struct {
	Connections int
	// RoundTrips is the sum of the round trips of each connection, with the one that sets
	// it up.
	RoundTrips int
	// Sequential is the number of round trips that happened one after the other, on
	// any connection. The client took at least as many times the delay of both directions.
	Sequential     int
	Sent, Received int64 // bytes from the client, and to it
}

// Since returns what was forwarded after an earlier count.
func (s Stats) Since(before Stats) Stats {
	return Stats{
		Connections: s.Connections - before.Connections,
		RoundTrips:  s.RoundTrips - before.RoundTrips,
		Sequential:  s.Sequential - before.Sequential,
		Sent:        s.Sent - before.Sent,
		Received:    s.Received - before.Received,
	}
}

// clock counts round trips as a Lamport clock does: data carries the count of its sender,
// and what arrives at the client has completed one more. Data that crosses on its way
// completes none.
type clock struct{ client, server int }

func (c *clock) arriveAtServer(sent int) { c.server = max(c.server, sent) }
func (c *clock) arriveAtClient(sent int) { c.client = max(c.client, sent+1) }

// Listen opens a link from an address of this machine, such as "127.0.0.1:0", to a target
// on the network "tcp" or "unix". The delay is that of one direction. The link is open until
// Close, even if the context ends.
func Listen(ctx context.Context, address, network, target string, delay time.Duration) (*Link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Link{
		ctx: ctx, cancel: cancel,
		network: network, target: target, delay: delay, address: listener.Addr().String(),
		conns: map[*conn]struct{}{}, thawed: make(chan struct{}),
	}
	close(l.thawed)
	l.serve(listener)
	return l, nil
}

// Addr returns the address that the link listens on. It stays the same after a cut.
func (l *Link) Addr() string { return l.address }

// SetDelay changes the delay of one direction, for what is sent from now on.
func (l *Link) SetDelay(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// SetBandwidth limits how many bytes per second all connections carry together in each direction; 0 is
// no limit.
func (l *Link) SetBandwidth(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

// Stats returns what the link has forwarded so far.
func (l *Link) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Cut resets all connections and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	listener := l.listener
	l.listener = nil
	var open []*conn
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	for _, c := range open {
		c.close(true)
	}
}

// Freeze stops the delivery of data and keeps connections open. Restore delivers what was
// sent meanwhile.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isFrozen() {
		l.thawed = make(chan struct{})
	}
}

// isFrozen is called with the lock held.
func (l *Link) isFrozen() bool {
	select {
	case <-l.thawed:
		return false
	default:
		return true
	}
}

// Restore ends Cut and Freeze. It fails if another program has taken the address.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isFrozen() {
		close(l.thawed)
	}
	if l.listener != nil || l.closed {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(l.ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	l.serve(listener)
	return nil
}

// Close cuts the link for good and waits for its goroutines.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.Cut()
	l.running.Wait()
}

// serve is called with the lock held, or before the link is shared.
func (l *Link) serve(listener net.Listener) {
	l.listener = listener
	l.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the link was cut
			}
			_ = client.(*net.TCPConn).SetReadBuffer(chunkSize) // so that senders notice the bandwidth
			l.open(listener, client)
		}
	})
}

// open forwards a connection unless the link was cut meanwhile.
func (l *Link) open(listener net.Listener, client net.Conn) {
	c := &conn{link: l, client: client, closed: make(chan struct{}), clock: clock{client: 1, server: 1}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != listener {
		c.close(true)
		return
	}
	l.conns[c] = struct{}{}
	l.stats.Connections++
	l.stats.RoundTrips++
	handshake := l.clock.client
	connected := time.Now().Add(2 * l.delay)
	accepted := connected.Add(l.delay)
	l.running.Go(func() { c.forward(connected, accepted, handshake) })
}

// burst is how much the link makes up for what it was not used.
const burst = 50 * time.Millisecond

// transmit returns when bytes were put on their way, in the direction of the clock, or false when
// the connection is closed.
func (l *Link) transmit(bytes int, sent *time.Time, closed <-chan struct{}) bool {
	l.mu.Lock()
	if l.rate == 0 {
		l.mu.Unlock()
		return true
	}
	if earliest := time.Now().Add(-burst); sent.Before(earliest) {
		*sent = earliest
	}
	*sent = sent.Add(time.Duration(bytes) * time.Second / time.Duration(l.rate))
	until := time.Until(*sent)
	l.mu.Unlock()
	select {
	case <-time.After(until):
		return true
	case <-closed:
		return false
	}
}

// delayNow returns the delay of what is sent now.
func (l *Link) delayNow() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// wait returns when data that is due at a time may be delivered, or false when the
// connection is closed.
func (l *Link) wait(due time.Time, closed <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closed:
		return false
	}
	for {
		l.mu.Lock()
		thawed, frozen := l.thawed, l.isFrozen()
		l.mu.Unlock()
		if !frozen {
			return true
		}
		select {
		case <-thawed: // and may be frozen again
		case <-closed:
			return false
		}
	}
}
