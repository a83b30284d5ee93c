package egress

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
)

func TestParseRule(t *testing.T) {
	for _, tc := range []struct {
		name, text, want, err string
	}{
		{name: "host", text: "GitHub.com.", want: "github.com"},
		{name: "wildcard", text: "*.Example.com", want: "*.example.com"},
		{name: "port", text: "github.com:22", want: "github.com:22"},
		{name: "wildcard and port", text: "*.example.com:8443", want: "*.example.com:8443"},
		{name: "range", text: "db.corp.example=10.0.0.0/8", want: "db.corp.example=10.0.0.0/8"},
		{name: "all of it", text: "*.corp.example:5432=10.1.0.0/16,fd12::/16", want: "*.corp.example:5432=10.1.0.0/16,fd12::/16"},
		{name: "one address", text: "db.corp.example=192.168.1.7", want: "db.corp.example=192.168.1.7/32"},
		{name: "one label", text: "gitserver:3000=192.168.0.0/16", want: "gitserver:3000=192.168.0.0/16"},

		{name: "empty", text: "", err: "empty host name"},
		{name: "everything", text: "*", err: "matches every host"},
		{name: "everything with a port", text: "*:443", err: "matches every host"},
		{name: "wildcard in a label", text: "api-*.example.com", err: "whole labels"},
		{name: "wildcard in the middle", text: "a.*.example.com", err: "whole labels"},
		{name: "two wildcards", text: "*.*.example.com", err: "whole labels"},
		{name: "wildcard over a top-level domain", text: "*.com", err: `must name a domain below "com", as in "*.example.com"`},
		{name: "URL", text: "https://user:pw@github.com/x", err: `must be a host such as "github.com", not a URL`},
		{name: "path", text: "github.com/docker", err: `must be a host without a path, such as "github.com"`},
		{name: "no port", text: "github.com:", err: `invalid port ""`},
		{name: "port 0", text: "github.com:0", err: `invalid port "0"`},
		{name: "port with a sign", text: "github.com:+1", err: `invalid port "+1"`},
		{name: "port beyond", text: "github.com:65536", err: `invalid port "65536"`},
		{name: "address", text: "10.0.0.1", err: "an address, not a host name"},
		{name: "address and port", text: "10.0.0.1:80", err: "an address, not a host name"},
		{name: "IPv6", text: "::1", err: "an address, not a host name"},
		{name: "IPv6 and port", text: "[::1]:80", err: "an address, not a host name"},
		{name: "NUL", text: "a\x00.example", err: "invalid character"},
		{name: "no range", text: "a.example=", err: `invalid range ""`},
		{name: "bad range", text: "a.example=10.0.0.0/33", err: `invalid range "10.0.0.0/33"`},
		{name: "host bits", text: "a.example=10.0.0.1/8", err: "bits set beyond its length, unlike 10.0.0.0/8"},
		{name: "public range", text: "a.example=8.8.8.0/24", err: "not inside a private range"},
		{name: "everything as range", text: "a.example=0.0.0.0/0", err: "not inside a private range"},
		{name: "metadata", text: "a.example=169.254.169.254", err: "not inside a private range"},
		{name: "loopback", text: "a.example=127.0.0.0/8", err: "not inside a private range"},
		{name: "mapped", text: "a.example=::ffff:10.0.0.0/104", err: "not inside a private range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rule, err := ParseRule(tc.text)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, rule.String(), tc.want)
		})
	}
}

func TestRuleCovers(t *testing.T) {
	for _, tc := range []struct {
		rule, host string
		want       bool
	}{
		{"allowed.example", "allowed.example", true},
		{"allowed.example", "evilallowed.example", false},
		{"allowed.example", "allowed.example.evil.test", false},
		{"allowed.example", "a.allowed.example", false},
		{"*.allowed.example", "a.allowed.example", true},
		{"*.allowed.example", "a.b.allowed.example", true},
		{"*.allowed.example", "allowed.example", false},
		{"*.allowed.example", "evilallowed.example", false},
		{"*.allowed.example", ".allowed.example", false},
	} {
		rule, err := ParseRule(tc.rule)
		assert.NilError(t, err)
		assert.Equal(t, rule.covers(tc.host), tc.want, "%s and %s", tc.rule, tc.host)
	}
	assert.Assert(t, !Rule{}.covers(""), "an empty rule is not everything")
}

func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{"github.com", "*.example.com:8443=10.0.0.0/8,fd00::/8", "*", "a=b=c", "a:1:2", "[::1]:80", "https://x/", "a.b=10.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := ParseRule(text)
		if err != nil {
			return
		}
		again, err := ParseRule(rule.String())
		assert.NilError(t, err)
		assert.DeepEqual(t, again.String(), rule.String())
		encoded, err := json.Marshal(rule)
		assert.NilError(t, err)
		var decoded Rule
		assert.NilError(t, json.Unmarshal(encoded, &decoded))
		assert.Equal(t, decoded.String(), rule.String())
		assert.Assert(t, !rule.covers("unrelated.test") || rule.Host == "unrelated.test" || rule.Host == "*.test")
		for _, prefix := range rule.Ranges {
			assert.Assert(t, overridable(prefix))
		}
	})
}
