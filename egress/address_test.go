package egress

import (
	"errors"
	"net/netip"
	"testing"

	"gotest.tools/v3/assert"
)

func TestGuard(t *testing.T) {
	guard := Guard{
		Own:      []netip.Addr{netip.MustParseAddr("172.31.240.2"), netip.MustParseAddr("203.0.113.7")},
		Networks: []netip.Prefix{netip.MustParsePrefix("172.17.0.0/16"), netip.MustParsePrefix("11.0.0.0/24")},
	}
	for _, tc := range []struct {
		addr, ranges string
		err          string
		overridable  bool
	}{
		{addr: "203.0.113.10"},
		{addr: "2606:4700::1111"},
		{addr: "140.82.121.3"},
		{addr: "127.0.0.1", err: "loopback"},
		{addr: "::1", err: "loopback"},
		{addr: "0.0.0.0", err: "unspecified"},
		{addr: "::", err: "unspecified"},
		{addr: "10.1.2.3", err: "private", overridable: true},
		{addr: "10.1.2.3", ranges: "10.1.0.0/16"},
		{addr: "10.2.2.3", ranges: "10.1.0.0/16", err: "private", overridable: true},
		{addr: "172.20.0.1", err: "private", overridable: true},
		{addr: "192.168.1.1", err: "private", overridable: true},
		{addr: "100.64.0.1", err: "private to a provider", overridable: true},
		{addr: "198.18.0.1", err: "private to a test network", overridable: true},
		{addr: "fd12::1", err: "private", overridable: true},
		{addr: "169.254.169.254", err: "metadata"},
		{addr: "169.254.170.2", err: "metadata"},
		{addr: "100.100.100.200", ranges: "100.64.0.0/10", err: "metadata"},
		{addr: "fd00:ec2::254", ranges: "fc00::/7", err: "metadata"},
		{addr: "168.63.129.16", err: "metadata"},
		{addr: "192.0.0.192", err: "metadata"},
		{addr: "fe80::1", err: "link-local"},
		{addr: "fe80::1%eth0", err: "link-local"},
		{addr: "224.0.0.1", err: "multicast"},
		{addr: "ff02::1", err: "multicast"},
		{addr: "255.255.255.255", err: "reserved"},
		{addr: "64:ff9b::a00:1", err: "NAT64"},
		{addr: "2002:a00:1::1", err: "6to4"},
		{addr: "2001::1", err: "Teredo"},
		{addr: "::ffff:10.0.0.1", ranges: "10.0.0.0/8", err: "disguise"},
		{addr: "::ffff:203.0.113.10", err: "disguise"},
		{addr: "::10.0.0.1", err: "not a public address"},
		{addr: "172.31.240.2", ranges: "172.16.0.0/12", err: "the proxy itself"},
		{addr: "203.0.113.7", err: "the proxy itself"},
		{addr: "172.17.0.1", err: "a network of the engine", overridable: true},
		{addr: "172.17.0.1", ranges: "172.17.0.1/32"},
		{addr: "11.0.0.1", err: "a network of the engine"},
	} {
		t.Run(tc.addr+"="+tc.ranges, func(t *testing.T) {
			var ranges []netip.Prefix
			if tc.ranges != "" {
				ranges = append(ranges, netip.MustParsePrefix(tc.ranges))
			}
			err := guard.Check(netip.MustParseAddr(tc.addr), ranges)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
			var refused *AddressError
			assert.Assert(t, errors.As(err, &refused))
			assert.Equal(t, refused.Overridable, tc.overridable)
		})
	}
	assert.ErrorContains(t, guard.Check(netip.Addr{}, nil), "not an address")
}
