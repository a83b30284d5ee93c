//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
)

// timeout is how long an answer may take. Refusals come at once. Where attempts
// are to succeed, on a machine that may be busy, the test gives more of it.
var timeout = timeoutOf(os.Getenv("TIMEOUT"))

func timeoutOf(given string) time.Duration {
	if d, err := time.ParseDuration(given); err == nil {
		return d
	}
	return 2 * time.Second
}

func dialer(device string, multipath bool) *net.Dialer {
	d := &net.Dialer{Timeout: timeout}
	d.SetMultipathTCP(multipath)
	if device != "" {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var bindErr error
			return errors.Join(c.Control(func(fd uintptr) { bindErr = unix.BindToDevice(int(fd), device) }), bindErr)
		}
	}
	return d
}

// tcp connects, by a device if one is named.
func tcp(ctx context.Context, kind, address, device string) error {
	conn, err := dialer(device, kind == "mptcp").DialContext(ctx, "tcp", address)
	if err != nil {
		return closed(err)
	}
	return conn.Close()
}

// udp says something, and waits for an answer.
func udp(ctx context.Context, address, text, device string) error {
	conn, err := dialer(device, false).DialContext(ctx, "udp", address)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(text))
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, err = conn.Read(make([]byte, 2048))
	}
	if err != nil {
		return closed(err)
	}
	return nil
}

// fastOpen sends what it has to say with the first packet of a connection.
func fastOpen(address, text string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, []byte(unescape(text)), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return closed(err)
	}
	if n, err := unix.Read(fd, make([]byte, 64)); err != nil || n == 0 {
		return closed(fmt.Errorf("no answer: %w", err))
	}
	return nil
}

// icmp asks for an echo, by a socket for which no right is needed.
func icmp(address string) error {
	to, err := netip.ParseAddr(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if errors.Is(err, unix.EACCES) { // groups that may not: as root, another way is open
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	}
	if err != nil {
		return closed(err)
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return err
	}
	request := []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return closed(err)
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 64), 0); err != nil {
		return closed(err)
	}
	return nil
}

// dns asks a resolver, and is served if there is anything in the answer that is
// not the proxy's own address.
func dns(ctx context.Context, network, resolver, name, kind string) error {
	types := map[string]dnsmessage.Type{
		"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "TXT": dnsmessage.TypeTXT, "PTR": dnsmessage.TypePTR,
		"MX": dnsmessage.TypeMX, "SRV": dnsmessage.TypeSRV, "NS": dnsmessage.TypeNS, "CNAME": dnsmessage.TypeCNAME, "ANY": dnsmessage.TypeALL,
	}
	n, err := dnsmessage.NewName(name)
	if err != nil || types[kind] == 0 {
		return fmt.Errorf("cannot ask for %s of %q: %w", kind, name, err)
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: types[kind], Class: dnsmessage.ClassINET}},
	}
	packet, err := query.Pack()
	if err != nil {
		return err
	}
	conn, err := dialer("", false).DialContext(ctx, network, resolver)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if network == "tcp" {
		packet = append([]byte{byte(len(packet) >> 8), byte(len(packet))}, packet...)
	}
	if _, err = conn.Write(packet); err != nil {
		return closed(err)
	}
	buffer := make([]byte, 4096)
	size, err := conn.Read(buffer)
	if err != nil {
		return closed(err)
	}
	reply := buffer[:size]
	if network == "tcp" && size > 2 {
		reply = reply[2:]
	}
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if len(m.Answers)+len(m.Authorities) == 0 && m.Response {
		return closed(fmt.Errorf("the answer is %s", m.RCode))
	}
	_, err = fmt.Fprintln(os.Stdout, m.GoString())
	return err
}

// say sends a request, which may have the escapes of Go, and looks for a text in
// what comes back.
func say(ctx context.Context, address, request, want string) error {
	conn, err := dialer("", false).DialContext(ctx, "tcp", address)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, unescape(request)); err != nil {
		return closed(err)
	}
	return served(conn, want)
}

// flood opens many connections, and sends most of a long request on each. Then all
// of them are closed.
func flood(ctx context.Context, address, connections string) error {
	n, err := strconv.Atoi(connections)
	if err != nil {
		return err
	}
	request := "GET http://allowed.example/ HTTP/1.1\r\nX: " + strings.Repeat("x", 60<<10)
	var group sync.WaitGroup
	places := make(chan struct{}, 64)
	opened := make(chan net.Conn, n)
	for range n {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			conn, err := dialer("", false).DialContext(ctx, "tcp", address)
			if err != nil {
				return
			}
			opened <- conn
			_ = conn.SetDeadline(time.Now().Add(timeout))
			_, _ = io.WriteString(conn, request) // an answer, or the end, is all the same
		})
	}
	group.Wait()
	if len(opened) < n/2 {
		return closed(fmt.Errorf("%d of %d connections", len(opened), n))
	}
	_, err = fmt.Fprintln(os.Stdout, len(opened), "connections")
	return err
}

func unescape(text string) string {
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\0`, "\x00", `\t`, "\t").Replace(text)
}

// served reads until a text has come.
func served(conn io.Reader, want string) error {
	var got bytes.Buffer
	buffer := make([]byte, 4096)
	for got.Len() < 1<<20 {
		n, err := conn.Read(buffer)
		got.Write(buffer[:n])
		if bytes.Contains(got.Bytes(), []byte(want)) {
			_, err = fmt.Fprintln(os.Stdout, got.String())
			return err
		}
		if err != nil {
			return closedError{fmt.Sprintf("%v after %q", err, got.String())}
		}
	}
	return closedError{fmt.Sprintf("much, but not %q", want)}
}

// tlsAttempt is a connection by TLS: to an address, or through a proxy to what
// it is asked for.
type tlsAttempt struct {
	proxy, connect string // "direct" and "-" for none
	to             string // the address, if there is no proxy
	sni            string // "-" for none
	split          bool   // the first message comes in pieces
}

func throughTLS(ctx context.Context, a tlsAttempt) error {
	address := a.to
	if a.proxy != "direct" {
		address = a.proxy
	}
	conn, err := dialer("", false).DialContext(ctx, "tcp", address)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if a.proxy != "direct" {
		if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", a.connect, a.connect); err != nil {
			return closed(err)
		}
		// Byte by byte, so that nothing of what follows is lost.
		var head []byte
		for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
			if _, err := conn.Read(one); err != nil {
				return closed(fmt.Errorf("%w after %q", err, head))
			}
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
			return closedError{string(head)}
		}
	}
	c := &tls.Config{InsecureSkipVerify: true, ServerName: a.sni} //nolint:gosec // who is there does not matter
	if a.sni == "-" {
		c.ServerName = ""
	}
	if a.split {
		conn = pieces{conn}
	}
	secure := tls.Client(conn, c)
	if _, err := fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return closed(err)
	}
	return served(secure, server.Mark)
}

// pieces writes a few bytes at a time.
type pieces struct{ net.Conn }

func (p pieces) Write(b []byte) (int, error) {
	for i := 0; i < len(b); i += 16 {
		if _, err := p.Conn.Write(b[i:min(i+16, len(b))]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}
