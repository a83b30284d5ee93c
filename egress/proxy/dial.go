package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dialTimeout is for the name and the connection together.
const dialTimeout = 15 * time.Second

// DialFunc connects to a host by name. Before it connects to an address it
// calls check with it, and goes no further there when that returns an error.
type DialFunc func(ctx context.Context, host string, port uint16, check func(netip.Addr) error) (net.Conn, error)

// Dialer returns the DialFunc for real networks. The address is checked on the
// socket itself, after the name was resolved for the last time: there is no
// second look-up that could answer something else. nil is the usual resolver.
func Dialer(resolver *net.Resolver) DialFunc {
	return func(ctx context.Context, host string, port uint16, check func(netip.Addr) error) (net.Conn, error) {
		d := net.Dialer{
			Timeout:  dialTimeout,
			Resolver: resolver,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				to, err := netip.ParseAddrPort(address)
				if err != nil {
					return fmt.Errorf("reading the address to connect to: %w", err)
				}
				return check(to.Addr())
			},
		}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(absolute(host), strconv.Itoa(int(port))))
	}
}

// Resolve looks a name up by the usual resolver.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// absolute keeps the resolver from trying a name of several labels below the
// domains of its search list: that would be another name than was allowed.
func absolute(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return host
	}
	return host + "."
}
