// Package firewall is the second layer of a sandbox's network isolation: netfilter rules
// in its network namespace. The first layer, an internal network with the proxy, works
// without it. This one blocks the rest, such as packets to the host that need no answer,
// and rejects at once what would take seconds to fail. It has no effect on runtimes with
// their own network stack, such as gVisor.
package firewall

import "net/netip"

// Rules are the allowed outgoing connections of a sandbox. Incoming ones and IPv6 are
// always blocked.
type Rules struct {
	// Proxy is the only reachable address. If it is not valid, all addresses are
	// reachable except those in [Never] and Near.
	Proxy netip.Addr
	// Near are the networks of the engine, which are not reachable either.
	Near []netip.Prefix
}

// Mark marks packets that are dropped instead of rejected, so that any answer comes from
// the other side. Marking requires CAP_NET_ADMIN.
const Mark = 0x72616c70

// Ports of the proxy.
const (
	PortProxy = 3128 // CONNECT and requests with a full URL
	PortAPI   = 8080 // requests to which keys are added
	PortTLS   = 443
	PortHTTP  = 80
	PortDNS   = 53
)

func tcpPorts() []uint16 { return []uint16{PortProxy, PortAPI, PortTLS, PortHTTP, PortDNS} }

func udpPorts() []uint16 { return []uint16{PortDNS} }

// Never returns the addresses that sandboxes cannot reach, except their proxy: loopback,
// private and link-local networks, and metadata services of clouds.
func Never() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range [...]string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}
