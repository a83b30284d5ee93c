package canary

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
)

// dialer returns a dialer that binds to a device, if one is given. It marks packets, so
// that rejects of the firewall are not taken for answers.
func (q Question) dialer(device string) net.Dialer {
	return net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var bindErr, markErr error
		err := c.Control(func(fd uintptr) {
			if device != "" {
				bindErr = unix.BindToDevice(int(fd), device)
			}
			markErr = q.mark(int(fd))
		})
		return errors.Join(err, bindErr, markErr)
	}}
}

// mark makes the firewall drop and count the packets of a socket instead of rejecting
// them.
func (q Question) mark(fd int) error {
	if !q.firewall() {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, firewall.Mark)
}

// unlessAnswered returns nil for errors that are an answer of the other side, such as
// a refused connection.
func unlessAnswered(err error) error {
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

func (q Question) answersTCP(to netip.AddrPort, device string) func(context.Context) error {
	return func(ctx context.Context) error {
		d := q.dialer(device)
		conn, err := d.DialContext(ctx, "tcp", to.String())
		if err == nil {
			_ = conn.Close()
		}
		return unlessAnswered(err)
	}
}

// answersUDP queries a resolver for the root zone.
func (q Question) answersUDP(to netip.AddrPort, device string) func(context.Context) error {
	return func(ctx context.Context) error {
		d := q.dialer(device)
		conn, err := d.DialContext(ctx, "udp", to.String())
		if err != nil {
			return err
		}
		_, err = exchange(ctx, conn, ".", dnsmessage.TypeNS)
		return unlessAnswered(err)
	}
}

// exchange sends a DNS query and returns the answer.
func exchange(ctx context.Context, conn net.Conn, name string, kind dnsmessage.Type) (dnsmessage.Message, error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return dnsmessage.Message{}, err
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}},
	}
	packet, err := query.Pack()
	if err != nil {
		return dnsmessage.Message{}, err
	}
	if _, err := conn.Write(packet); err != nil {
		return dnsmessage.Message{}, err
	}
	buffer := make([]byte, 4096)
	size, err := conn.Read(buffer)
	if err != nil {
		return dnsmessage.Message{}, err
	}
	var reply dnsmessage.Message
	if err := reply.Unpack(buffer[:size]); err != nil {
		return dnsmessage.Message{}, err
	}
	return reply, nil
}

// resolves returns nil if a resolver has an address for a name, other than that of the
// proxy.
func resolves(ctx context.Context, server netip.AddrPort, name string, proxy netip.Addr) error {
	d := net.Dialer{}
	conn, err := d.DialContext(ctx, "udp", server.String())
	if err != nil {
		return err
	}
	reply, err := exchange(ctx, conn, name+".", dnsmessage.TypeA)
	if err != nil {
		return err
	}
	for _, r := range reply.Answers {
		if a, ok := r.Body.(*dnsmessage.AResource); ok && netip.AddrFrom4(a.A) != proxy {
			return nil
		}
	}
	return errors.New("no address")
}

// resolvers returns the name servers in resolv.conf.
func resolvers() []netip.AddrPort {
	content, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	var all []netip.AddrPort
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			all = append(all, netip.AddrPortFrom(addr, 53))
		}
	}
	return all
}

// pings sends an ICMP echo request through an unprivileged socket.
func (q Question) pings(host netip.Addr) func(context.Context) error {
	return func(ctx context.Context) error {
		if !host.Is4() {
			return errors.New("not an IPv4 address")
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		deadline, _ := ctx.Deadline()
		wait := unix.NsecToTimeval(max(time.Until(deadline), time.Millisecond).Nanoseconds())
		if err := q.mark(fd); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return err
		}
		const echo = 8
		request := []byte{echo, 0, 0xf7, 0xfd, 0, 1, 0, 1} // the kernel sets identifier and checksum
		if err := unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: host.As4()}); err != nil {
			return err
		}
		_, _, err = unix.Recvfrom(fd, make([]byte, 64), 0)
		return err
	}
}

// hasIPv6 returns nil if there is an IPv6 address.
func hasIPv6() error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && !n.IP.IsLoopback() {
			return nil
		}
	}
	return errors.New("no IPv6 address")
}

// connectThrough sends a CONNECT request and returns its status.
func connectThrough(ctx context.Context, proxy netip.AddrPort, target string) (status int, err error) {
	d := net.Dialer{}
	conn, err := d.DialContext(ctx, "tcp", proxy.String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("no answer to CONNECT %s: %w", target, err)
	}
	_ = res.Body.Close()
	return res.StatusCode, nil
}
