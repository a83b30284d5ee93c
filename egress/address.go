package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// block is a range of addresses that no sandbox reaches without being asked.
type block struct {
	prefix netip.Prefix
	what   string
	never  bool // not even by a rule with a range
}

// blocks are looked through in order. IPv6 outside 2000::/3 is refused as a
// whole, so what is listed of it is there for its reason or its exception.
// The ranges of examples (192.0.2.0/24 and so on) are missing on purpose:
// nothing real is there, and networks that are built for tests use them.
var blocks = []block{
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud's metadata service", true},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata service", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved, with a cloud's metadata service", true},
	{netip.MustParsePrefix("fd00:ec2::/32"), "a cloud's metadata service", true},
	{netip.MustParsePrefix("fd20:ce::/32"), "a cloud's metadata service", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, where clouds keep their metadata", true},
	{netip.MustParsePrefix("fe80::/10"), "link-local", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback", true},
	{netip.MustParsePrefix("::1/128"), "loopback", true},
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified", true},
	{netip.MustParsePrefix("::/128"), "unspecified", true},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", true},
	{netip.MustParsePrefix("ff00::/8"), "multicast", true},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", true},
	{netip.MustParsePrefix("64:ff9b::/96"), "an IPv4 address in disguise (NAT64)", true},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in disguise (NAT64)", true},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in disguise (6to4)", true},
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in disguise (Teredo)", true},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", false},
	{netip.MustParsePrefix("100.64.0.0/10"), "private to a provider", false},
	{netip.MustParsePrefix("198.18.0.0/15"), "private to a test network", false},
	{netip.MustParsePrefix("fc00::/7"), "private", false},
}

var globalUnicast = netip.MustParsePrefix("2000::/3")

// overridable reports whether a rule may name the range.
func overridable(prefix netip.Prefix) bool {
	return slices.ContainsFunc(blocks, func(b block) bool {
		return !b.never && b.prefix.Bits() <= prefix.Bits() && b.prefix.Contains(prefix.Addr())
	})
}

// PrivateRanges are those that a rule may name.
func PrivateRanges() []netip.Prefix {
	var ranges []netip.Prefix
	for _, b := range blocks {
		if !b.never {
			ranges = append(ranges, b.prefix)
		}
	}
	return ranges
}

// ClosedRanges are those that no name leads to without a rule, and those that
// none leads to at all.
func ClosedRanges() []netip.Prefix {
	var ranges []netip.Prefix
	for _, b := range blocks {
		ranges = append(ranges, b.prefix)
	}
	return ranges
}

func privateText() string {
	var texts []string
	for _, prefix := range PrivateRanges() {
		texts = append(texts, prefix.String())
	}
	return strings.Join(texts, ", ")
}

// AddressError is returned for an address that is not to be connected to.
type AddressError struct {
	Addr netip.Addr
	// What says what is there, as in "private".
	What string
	// Overridable reports whether a rule with a range allows it.
	Overridable bool
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("it leads to %s, which is %s", e.Addr, e.What)
}

// Guard looks at the address that a name has led to, just before something
// connects there. That is the only moment that counts: a name can resolve to
// something else each time it is asked.
type Guard struct {
	// Own are the addresses of the proxy itself.
	Own []netip.Addr
	// Networks are the engine's, which need not be in a private range.
	Networks []netip.Prefix
}

// Check returns an *AddressError unless the address is public, or private and
// in one of the ranges.
func (g Guard) Check(addr netip.Addr, ranges []netip.Prefix) error {
	refuse := func(what string, overridable bool) error {
		return &AddressError{Addr: addr, What: what, Overridable: overridable}
	}
	switch {
	case !addr.IsValid():
		return refuse("not an address", false)
	case addr.Zone() != "":
		return refuse("link-local", false)
	case addr.Is4In6():
		return refuse("an IPv4 address in disguise", false)
	case slices.Contains(g.Own, addr):
		return refuse("the proxy itself", false)
	}
	in := func(prefix netip.Prefix) bool { return prefix.Contains(addr) }
	i := slices.IndexFunc(blocks, func(b block) bool { return b.prefix.Contains(addr) })
	switch {
	case i >= 0 && blocks[i].never:
		return refuse(blocks[i].what, false)
	case i >= 0 && slices.ContainsFunc(ranges, in):
		return nil
	case slices.ContainsFunc(g.Networks, in):
		return refuse("a network of the engine", i >= 0)
	case i >= 0:
		return refuse(blocks[i].what, true)
	case addr.Is6() && !globalUnicast.Contains(addr):
		return refuse("not a public address", false)
	}
	return nil
}
