package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A sandbox without a network reaches its proxy by unix sockets on a volume that both
// have mounted. Programs need addresses and ports, so the first process listens on an
// address of the loopback interface and forwards every connection.

const (
	// maxForwarded bounds connections on all ports together. The proxy itself takes fewer.
	maxForwarded = 2048
	// maxQuery is the size of the largest DNS message that the proxy reads.
	maxQuery   = 4096
	dnsTimeout = 2 * time.Second
)

// forwardProxy listens on an address and forwards TCP ports to the unix sockets in dir
// that have their number for a name. DNS over UDP goes to the socket of DNS over TCP.
// It returns once it listens on all ports.
func forwardProxy(ctx context.Context, address, dir string, dns int, ports ...int) error {
	var config net.ListenConfig
	at := func(port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }
	socket := func(port int) string { return filepath.Join(dir, strconv.Itoa(port)) }
	packets, err := config.ListenPacket(ctx, "udp", at(dns))
	if err != nil {
		return fmt.Errorf("listening in place of the proxy: %w", err)
	}
	free := make(chan struct{}, maxForwarded)
	for _, port := range ports {
		l, err := config.Listen(ctx, "tcp", at(port))
		if err != nil {
			return fmt.Errorf("listening in place of the proxy: %w", err)
		}
		go forwardStreams(ctx, l, socket(port), free)
	}
	go forwardQueries(ctx, packets, socket(dns))
	return nil
}

// forwardStreams accepts connections until the listener is closed.
func forwardStreams(ctx context.Context, l net.Listener, socket string, free chan struct{}) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no file descriptor is free
			continue
		}
		select {
		case free <- struct{}{}:
			go func() {
				defer func() { <-free }()
				forwardStream(ctx, client, socket)
			}()
		default:
			_ = client.Close()
		}
	}
}

// forwardStream carries bytes both ways until both sides have ended. Without a proxy,
// the connection is closed.
func forwardStream(ctx context.Context, client net.Conn, socket string) {
	defer func() { _ = client.Close() }()
	proxy, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = proxy.Close() }()
	var back sync.WaitGroup
	back.Go(func() { carry(client, proxy) })
	carry(proxy, client)
	back.Wait()
}

// carry copies until from ends, and passes the end on.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// forwardQueries answers DNS queries one by one until the connection is closed.
func forwardQueries(ctx context.Context, packets net.PacketConn, socket string) {
	r := resolver{socket: socket}
	query := make([]byte, maxQuery)
	for {
		n, from, err := packets.ReadFrom(query)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < dnsHeader {
			continue
		}
		answer, err := r.ask(ctx, query[:n])
		if err != nil {
			answer = serverFailure(query[:n])
		}
		_, _ = packets.WriteTo(answer, from)
	}
}

// dnsHeader is the length of the header of a DNS message.
const dnsHeader = 12

// serverFailure turns a query into the answer that there is none, so that its sender
// does not wait for one.
func serverFailure(query []byte) []byte {
	query[2] |= 0x80               // it is a response
	query[3] = query[3]&0xf0 | 0x2 // SERVFAIL
	return query
}

// resolver asks the proxy over a connection that it keeps.
type resolver struct {
	socket string
	conn   net.Conn
}

// ask asks a second time if the proxy has closed the connection since the last query.
func (r *resolver) ask(ctx context.Context, query []byte) (answer []byte, err error) {
	if r.conn != nil {
		if answer, err = r.exchange(query); err == nil {
			return answer, nil
		}
	}
	if r.conn, err = (&net.Dialer{Timeout: dnsTimeout}).DialContext(ctx, "unix", r.socket); err != nil {
		r.conn = nil
		return nil, err
	}
	return r.exchange(query)
}

// exchange closes the connection if it fails.
func (r *resolver) exchange(query []byte) (answer []byte, err error) {
	defer func() {
		if err != nil {
			_ = r.conn.Close()
			r.conn = nil
		}
	}()
	if err := r.conn.SetDeadline(time.Now().Add(dnsTimeout)); err != nil {
		return nil, err
	}
	if _, err := r.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(r.conn, length[:]); err != nil {
		return nil, err
	}
	answer = make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err = io.ReadFull(r.conn, answer)
	return answer, err
}
