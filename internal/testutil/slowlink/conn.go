package slowlink

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is one connection of a link.
type conn struct {
	link   *Link
	client net.Conn
	clock  clock // guarded by link.mu

	mu       sync.Mutex
	server   net.Conn // nil until it is connected
	isClosed bool
	closed   chan struct{} // closed when isClosed is set
}

// chunk is data on its way, or the end of one direction.
type chunk struct {
	data []byte
	err  error // io.EOF, or the sender's failure
	due  time.Time
	// The sender's counts of round trips, on the connection and on the link.
	conn, link int
}

// Each direction holds at most queueLength chunks of chunkSize: more than a test sends in
// the time of a delay.
const (
	queueLength = 512
	chunkSize   = 64 << 10
)

// close closes both sides. With reset, they see a failure instead of an end.
func (c *conn) close(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return
	}
	c.isClosed = true
	close(c.closed)
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		if side != nil {
			_ = side.Close()
		}
	}
}

// forward serves a connection to its end. The kernel has accepted it at once, so TCP's
// handshake delays what the client sends first: the client is connected after two delays,
// the server after three.
func (c *conn) forward(connected, accepted time.Time, handshake int) {
	l := c.link
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	}()
	up := c.receive(c.client, connected, &l.up, c.sentUp)
	if !l.wait(accepted, c.closed) || !c.dial() {
		c.close(true)
		return
	}
	l.mu.Lock()
	l.clock.arriveAtClient(handshake)
	l.clock.arriveAtServer(handshake + 1)
	l.stats.Sequential = l.clock.client
	l.mu.Unlock()
	down := c.receive(c.server, connected, &l.down, c.sentDown)
	var directions sync.WaitGroup
	directions.Go(func() { c.deliver(up, c.server, c.arrivesUp) })
	directions.Go(func() { c.deliver(down, c.client, c.arrivesDown) })
	directions.Wait()
	c.close(false)
}

// dial connects to the target, unless the connection was closed meanwhile.
func (c *conn) dial() bool {
	server, err := (&net.Dialer{}).DialContext(c.link.ctx, c.link.network, c.link.target)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

// receive reads what a side sends.
func (c *conn) receive(from io.Reader, notBefore time.Time, way *time.Time, sent func(*chunk)) <-chan chunk {
	queue := make(chan chunk, queueLength)
	c.link.running.Go(func() {
		buf := make([]byte, chunkSize)
		for {
			n, err := from.Read(buf)
			if !c.link.transmit(n, way, c.closed) {
				return
			}
			now := time.Now()
			if now.Before(notBefore) {
				now = notBefore
			}
			part := chunk{data: slices.Clone(buf[:n]), err: err, due: now.Add(c.link.delayNow())}
			sent(&part)
			select {
			case queue <- part:
			case <-c.closed:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return queue
}

// deliver writes to a side what the other has sent, until that ends.
func (c *conn) deliver(queue <-chan chunk, to net.Conn, arrives func(chunk)) {
	for {
		var part chunk
		select {
		case part = <-queue:
		case <-c.closed:
			return
		}
		if !c.link.wait(part.due, c.closed) {
			return
		}
		arrives(part)
		_, err := to.Write(part.data)
		switch {
		case err != nil || part.err != nil && !errors.Is(part.err, io.EOF):
			c.close(true)
			return
		case part.err != nil:
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // the other side may have closed already
			}
			return
		}
	}
}

func (c *conn) sentUp(part *chunk) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	part.conn, part.link = c.clock.client, c.link.clock.client
	c.link.stats.Sent += int64(len(part.data))
}

func (c *conn) arrivesUp(part chunk) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.clock.arriveAtServer(part.conn)
	c.link.clock.arriveAtServer(part.link)
}

func (c *conn) sentDown(part *chunk) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	part.conn, part.link = c.clock.server, c.link.clock.server
}

func (c *conn) arrivesDown(part chunk) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	before := c.clock.client
	c.clock.arriveAtClient(part.conn)
	c.link.clock.arriveAtClient(part.link)
	c.link.stats.RoundTrips += c.clock.client - before
	c.link.stats.Sequential = c.link.clock.client
	c.link.stats.Received += int64(len(part.data))
}
