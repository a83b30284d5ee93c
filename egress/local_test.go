package egress

import (
	"net/netip"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestIsLocal(t *testing.T) {
	local := []string{
		"localhost", "LOCALHOST", "localhost.", "shop.localhost", "a.b.Localhost.", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "0.0.0.0", "::",
		"::ffff:127.0.0.1", "sandbox", "Sandbox.",
		"localhost.localdomain", "IP6-localhost", "ip6-loopback.",
	}
	for _, spelling := range LocalNames() {
		if prefix, err := netip.ParsePrefix(spelling); err == nil {
			spelling = prefix.Addr().Next().String()
		}
		if strings.HasPrefix(spelling, ".") {
			spelling = "shop" + spelling
		}
		local = append(local, spelling)
	}
	for _, host := range local {
		assert.Check(t, IsLocal(host), host)
	}
	for _, host := range []string{"", ".", "localhost.example", "a.localhost.localdomain", "localdomain", "notlocalhost", "sandbox.example", "a.sandbox", "128.0.0.1", "10.0.0.1", "::2", "127.0.0.1.example"} {
		assert.Check(t, !IsLocal(host), host)
	}
}

// Whatever the policy is, the sandbox itself is not reached through the proxy, and no rule would
// change that.
func TestLocalNamesAreNotAskedFor(t *testing.T) {
	rule, err := ParseRule("localhost")
	assert.NilError(t, err)
	for _, p := range []Policy{{Mode: AllowAll}, {Mode: Deny}, {Mode: Allowlist}, {Mode: Allowlist, Rules: []Entry{{Rule: rule, Origin: "test"}}}} {
		for _, host := range []string{"localhost", "shop.localhost", "127.0.0.1", "::1", "0.0.0.0", "sandbox"} {
			for _, v := range []Verdict{p.Decide(host, 3000), p.Named(host)} {
				assert.Check(t, !v.Allowed && v.Hint == "", "%s: %s: %+v", p.Mode, host, v)
				assert.Check(t, strings.HasPrefix(v.Why, "the sandbox itself"), "%s: %s: %+v", p.Mode, host, v)
			}
		}
	}
}
