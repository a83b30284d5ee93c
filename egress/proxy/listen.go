package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/docker-ralph/docker-ralph/wire"
)

// Listeners are the ways in.
type Listeners struct {
	Proxy, HTTP, TLS, Routes net.Listener
	DNSOverTCP               net.Listener
	// DNS is nil if the sandbox sends queries over UDP to DNSOverTCP.
	DNS net.PacketConn
	// Control is out of the sandbox's reach.
	Control net.Listener
}

// Listen opens all ports on one address, or none.
func Listen(ctx context.Context, address netip.Addr) (*Listeners, error) {
	at := func(port int) string { return net.JoinHostPort(address.String(), strconv.Itoa(port)) }
	var config net.ListenConfig
	packets, err := config.ListenPacket(ctx, "udp", at(wire.PortDNS))
	if err != nil {
		return nil, fmt.Errorf("opening the proxy's ports: %w", err)
	}
	l, err := listen(ctx, func(port int) (net.Listener, error) { return config.Listen(ctx, "tcp", at(port)) })
	if err != nil {
		_ = packets.Close()
		return nil, err
	}
	l.DNS = packets
	return l, nil
}

// ListenSockets opens a unix socket for each port, or none, in place of those that an
// earlier proxy has left.
func ListenSockets(ctx context.Context, dir string) (*Listeners, error) {
	var config net.ListenConfig
	return listen(ctx, func(port int) (net.Listener, error) {
		path := filepath.Join(dir, strconv.Itoa(port))
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
		return config.Listen(ctx, "unix", path)
	})
}

func listen(ctx context.Context, open func(port int) (net.Listener, error)) (*Listeners, error) {
	l := &Listeners{}
	var errs []error
	at := func(port int) net.Listener {
		listener, err := open(port)
		errs = append(errs, err)
		return listener
	}
	l.Proxy, l.HTTP, l.TLS, l.Routes, l.DNSOverTCP = at(wire.PortProxy), at(wire.PortHTTP), at(wire.PortTLS), at(wire.PortRoutes), at(wire.PortDNS)
	var config net.ListenConfig
	var err error
	l.Control, err = config.Listen(ctx, "unix", controlSocket)
	if err := errors.Join(append(errs, err)...); err != nil {
		l.Close()
		return nil, fmt.Errorf("opening the proxy's ports: %w", err)
	}
	return l, nil
}

// Close closes those that are open.
func (l *Listeners) Close() {
	for _, listener := range []net.Listener{l.Proxy, l.HTTP, l.TLS, l.Routes, l.DNSOverTCP, l.Control} {
		if listener != nil {
			_ = listener.Close()
		}
	}
	if l.DNS != nil {
		_ = l.DNS.Close()
	}
}
