// Package firewall is the second layer of a sandbox's network wall: rules in
// the sandbox's network namespace. The first layer, a network without any way
// out but the proxy, holds without it; this one closes what is left, such as
// packets to the host that need no answer, and refuses at once what would
// else take seconds to fail. It has no effect under runtimes with a network
// stack of their own, such as gVisor, and lasts as long as the namespace.
package firewall

import "net/netip"

// Rules say what may leave a sandbox. Nothing may enter one, and IPv6 is
// refused always.
type Rules struct {
	// Proxy is the only address that can be reached. If it is not valid,
	// every address can be, but for those in [Never] and Near.
	Proxy netip.Addr
	// Near are further networks that cannot be reached: those of the engine,
	// which can have any addresses.
	Near []netip.Prefix
}

// Mark is what a packet carries that is to be refused without a word: so, any
// answer comes from the other side. Marking takes CAP_NET_ADMIN.
const Mark = 0x72616c70

// Ports of the proxy.
const (
	PortProxy = 3128 // CONNECT and requests with a full URL
	PortAPI   = 8080 // requests that get a key on their way
	PortTLS   = 443
	PortHTTP  = 80
	PortDNS   = 53
)

func tcpPorts() []uint16 { return []uint16{PortProxy, PortAPI, PortTLS, PortHTTP, PortDNS} }

func udpPorts() []uint16 { return []uint16{PortDNS} }

// Never returns the addresses that no sandbox reaches unless they are its
// proxy's: this machine's, those of networks around it, and those from which
// clouds hand out their keys.
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
