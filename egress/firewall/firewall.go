// Package firewall closes what no sandbox reaches in the network namespace of a sandbox
// whose network is open otherwise. It has no effect under runtimes with a network stack
// of their own, such as gVisor, and lasts as long as the namespace.
package firewall

import "net/netip"

// Mark is on packets that are dropped instead of rejected, so that every answer comes
// from the other side. Marking takes CAP_NET_ADMIN.
const Mark = 0x72616c70

// Never returns the addresses that no sandbox reaches: those of its own machine, of
// networks around that, and of the metadata services of clouds.
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
