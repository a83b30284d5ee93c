package egress

import (
	"net/netip"
	"slices"
	"strings"
)

// Hostname is the host name of all sandboxes.
const Hostname = "sandbox"

// LoopbackNames are what distributions call loopback addresses in /etc/hosts, besides localhost.
func LoopbackNames() []string {
	return []string{"localhost.localdomain", "ip6-localhost", "ip6-loopback"}
}

// LocalNames are the names and addresses of a sandbox itself, for NO_PROXY, in all spellings in
// which programs use them: some match names and addresses literally, others know suffixes and
// ranges. [IsLocal] is true for each.
func LocalNames() []string {
	names := []string{"localhost", ".localhost", "127.0.0.1", "127.0.0.0/8", "127.0.1.1", "0.0.0.0", "::1", "[::1]", "::", Hostname}
	return append(names, LoopbackNames()...)
}

// IsLocal reports whether a host is, from inside a sandbox, the sandbox itself. No policy applies
// to it, and no resolver outside is asked for it (RFC 6761, 6.3).
func IsLocal(host string) bool {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addr = addr.Unmap()
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || name == Hostname || slices.Contains(LoopbackNames(), name)
}
