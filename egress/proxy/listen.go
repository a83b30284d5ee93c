package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Ports of the proxy, on the sandbox's network.
const (
	PortProxy  = 3128 // CONNECT, and plain HTTP by absolute URL
	PortHTTP   = 80   // plain HTTP by Host
	PortTLS    = 443  // TLS by SNI
	PortDNS    = 53   // UDP and TCP
	PortRoutes = 8080 // routes
)

// Listeners are the ways in. All of them must be there.
type Listeners struct {
	Proxy, HTTP, TLS, Routes net.Listener
	DNS                      net.PacketConn
	DNSOverTCP               net.Listener
	// Control is out of the sandbox's reach.
	Control net.Listener
}

// Listen opens them all, on one address and the usual ports, or none.
func Listen(ctx context.Context, address netip.Addr) (*Listeners, error) {
	var config net.ListenConfig
	l := &Listeners{}
	var errs []error
	at := func(port int) string { return net.JoinHostPort(address.String(), strconv.Itoa(port)) }
	tcp := func(port int) net.Listener {
		listener, err := config.Listen(ctx, "tcp", at(port))
		errs = append(errs, err)
		return listener
	}
	l.Proxy, l.HTTP, l.TLS, l.Routes, l.DNSOverTCP = tcp(PortProxy), tcp(PortHTTP), tcp(PortTLS), tcp(PortRoutes), tcp(PortDNS)
	var err error
	l.DNS, err = config.ListenPacket(ctx, "udp", at(PortDNS))
	errs = append(errs, err)
	l.Control, err = config.Listen(ctx, "unix", controlSocket)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
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
