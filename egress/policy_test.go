package egress

import (
	"encoding/json"
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
)

func entry(t *testing.T, text, origin string) Entry {
	t.Helper()
	rule, err := ParseRule(text)
	assert.NilError(t, err)
	return Entry{Rule: rule, Origin: origin}
}

func list(t *testing.T, mode Mode, rules ...string) Policy {
	t.Helper()
	p := Policy{Mode: mode}
	for _, text := range rules {
		p.Rules = append(p.Rules, entry(t, text, "ralph.toml"))
	}
	return p
}

func TestDecide(t *testing.T) {
	allow := list(t, Allowlist, "allowed.example", "*.wild.example:8443", "db.example=10.0.0.0/8", "ssh.example:22")
	deny := list(t, Deny, "allowed.example")
	model := entry(t, "model.example", "preset agent")
	model.Model = true
	deny.Rules = append(deny.Rules, model)
	everything := list(t, AllowAll)
	refusing, err := everything.Refuse(entry(t, "*.bad.example", "user"))
	assert.NilError(t, err)

	for _, tc := range []struct {
		name    string
		policy  Policy
		host    string
		port    uint16
		allowed bool
		why     string
		hint    string
	}{
		{name: "listed", policy: allow, host: "Allowed.Example.", port: 443, allowed: true, why: "ralph.toml"},
		{name: "listed, plain", policy: allow, host: "allowed.example", port: 80, allowed: true, why: "ralph.toml"},
		{name: "other port", policy: allow, host: "allowed.example", port: 22, why: "port 22 not in allowlist", hint: "allowed.example:22"},
		{name: "no port", policy: allow, host: "allowed.example", why: "no port"},
		{name: "not listed", policy: allow, host: "blocked.example", port: 443, why: "not in allowlist", hint: "blocked.example"},
		{name: "wildcard with port", policy: allow, host: "a.wild.example", port: 8443, allowed: true, why: "ralph.toml"},
		{name: "wildcard with another port", policy: allow, host: "a.wild.example", port: 443, why: "port 443 not in allowlist", hint: "a.wild.example"},
		{name: "NUL", policy: allow, host: "evil\x00.allowed.example", port: 443, why: "not a host name"},
		{name: "address", policy: allow, host: "203.0.113.10", port: 443, why: "an address, not a name"},
		{name: "empty list", policy: Policy{Mode: Allowlist}, host: "allowed.example", port: 443, why: "not in allowlist", hint: "allowed.example"},
		{name: "no policy", policy: Policy{}, host: "allowed.example", port: 443, why: "no policy"},
		{name: "unknown mode", policy: list(t, "open", "allowed.example"), host: "allowed.example", port: 443, why: "no policy"},
		{name: "deny but the model", policy: deny, host: "model.example", port: 443, allowed: true, why: "preset agent"},
		{name: "deny, whatever is listed", policy: deny, host: "allowed.example", port: 443, why: "policy deny"},
		{name: "allow-all", policy: everything, host: "any.example", port: 25, allowed: true, why: "policy allow-all"},
		{name: "allow-all and an address", policy: everything, host: "203.0.113.10", port: 443, allowed: true, why: "policy allow-all"},
		{name: "allow-all and an odd address", policy: everything, host: "0xcb00710a", port: 443, why: "an address, not a name"},
		{name: "allow-all and another odd one", policy: everything, host: "2001:db8:0::1", port: 443, why: "an address, not a name"},
		{name: "the sandbox itself", policy: everything, host: "0:0:0:0:0:0:0:1", port: 443, why: whyLocal},
		{name: "allow-all and nonsense", policy: everything, host: "a b", port: 443, why: "not a host name"},
		{name: "refused", policy: refusing, host: "x.bad.example", port: 99, why: "denied by user", hint: "x.bad.example:99"},
		{name: "an address that may be a refused host", policy: refusing, host: "203.0.113.10", port: 443, why: "an address, not a name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := tc.policy.Decide(tc.host, tc.port)
			assert.Equal(t, v.Allowed, tc.allowed)
			assert.Equal(t, v.Why, tc.why)
			assert.Equal(t, v.Hint, tc.hint)
		})
	}
	assert.Equal(t, len(allow.Decide("db.example", 443).Ranges), 1)
	assert.Equal(t, len(allow.Decide("allowed.example", 443).Ranges), 0)
}

func TestNamed(t *testing.T) {
	p := list(t, Allowlist, "allowed.example", "ssh.example:22")
	assert.Assert(t, p.Named("allowed.example").Allowed)
	assert.Assert(t, p.Named("ssh.example").Allowed, "some port is enough")
	assert.Assert(t, !p.Named("blocked.example").Allowed)
	assert.Assert(t, !list(t, AllowAll).Named("203.0.113.10").Allowed, "addresses are not names")
	assert.Assert(t, list(t, AllowAll).Named("any.example").Allowed)
	assert.Assert(t, !Policy{}.Named("allowed.example").Allowed)
}

func TestAllowAndRefuse(t *testing.T) {
	p := list(t, Allowlist, "*.example.com")
	refused, err := p.Refuse(entry(t, "bad.example.com", "docker ralph network"))
	assert.NilError(t, err)
	assert.Assert(t, !refused.Decide("bad.example.com", 443).Allowed)
	assert.Assert(t, !refused.Decide("bad.example.com", 8080).Allowed)
	assert.Assert(t, refused.Decide("good.example.com", 443).Allowed)
	assert.Assert(t, p.Decide("bad.example.com", 443).Allowed, "policies do not change")

	again, err := refused.Allow(entry(t, "bad.example.com", "docker ralph network"))
	assert.NilError(t, err)
	assert.Assert(t, again.Decide("bad.example.com", 443).Allowed)
	assert.Equal(t, len(again.Refused), 0)

	wide, err := p.Refuse(entry(t, "*.example.com", "ralph.toml"))
	assert.NilError(t, err)
	_, err = wide.Allow(entry(t, "a.example.com", "--allow"))
	assert.ErrorContains(t, err, "ralph.toml denies *.example.com")

	port, err := p.Refuse(entry(t, "a.example.com:443", "user"))
	assert.NilError(t, err)
	assert.Assert(t, port.Decide("a.example.com", 80).Allowed)
	other, err := port.Allow(entry(t, "a.example.com:8080", "user"))
	assert.NilError(t, err)
	assert.Assert(t, !other.Decide("a.example.com", 443).Allowed, "another port is another matter")

	_, err = p.Refuse(entry(t, "a.example.com=10.0.0.0/8", "user"))
	assert.ErrorContains(t, err, "a range cannot be blocked")
}

// What was allowed by hand and then denied does not come back with another allowance.
func TestDenyRemovesAllowsOfTheSameOrigin(t *testing.T) {
	p := list(t, Allowlist, "a.example.com=192.168.0.0/16")
	for _, rule := range []string{"a.example.com=10.0.0.0/8", "a.example.com:22", "b.example.com"} {
		next, err := p.Allow(entry(t, rule, "user"))
		assert.NilError(t, err)
		p = next
	}
	p, err := p.Refuse(entry(t, "a.example.com", "user"))
	assert.NilError(t, err)
	p, err = p.Allow(entry(t, "a.example.com", "user"))
	assert.NilError(t, err)
	v := p.Decide("a.example.com", 443)
	assert.Assert(t, v.Allowed)
	assert.Equal(t, fmt.Sprint(v.Ranges), "[192.168.0.0/16]", "what others have said stays")
	assert.Assert(t, !p.Decide("a.example.com", 22).Allowed)
	assert.Assert(t, p.Decide("b.example.com", 443).Allowed)
}

func TestDenyStaysDeny(t *testing.T) {
	p, err := New(Deny, "claude", nil, nil)
	assert.NilError(t, err)
	_, err = p.Allow(entry(t, "github.com", "user"))
	assert.ErrorContains(t, err, `the network policy is "deny"`)
	cut, err := p.Refuse(entry(t, "api.anthropic.com", "user"))
	assert.NilError(t, err)
	assert.Assert(t, !cut.Decide("api.anthropic.com", 443).Allowed)
	back, err := cut.Allow(entry(t, "api.anthropic.com", "user"))
	assert.NilError(t, err)
	assert.Assert(t, back.Decide("api.anthropic.com", 443).Allowed)
}

func TestPolicyAsJSON(t *testing.T) {
	p, err := New(Allowlist, "claude", []string{"agent", "git"}, []Entry{entry(t, "db.example:5432=10.0.0.0/8", "ralph.toml")})
	assert.NilError(t, err)
	encoded, err := json.Marshal(p)
	assert.NilError(t, err)
	var decoded Policy
	assert.NilError(t, json.Unmarshal(encoded, &decoded))
	again, err := json.Marshal(decoded)
	assert.NilError(t, err)
	assert.Equal(t, string(again), string(encoded))
	assert.Assert(t, decoded.Decide("api.anthropic.com", 443).Allowed)

	for _, bad := range []string{
		`{}`, `{"mode":""}`, `{"mode":"open"}`, `{"mode":"allowlist","allow":["*"]}`,
		`{"mode":"allowlist","rules":[{"rule":"*"}]}`, `{"mode":"allowlist","rules":[{"rule":"a.example","orign":"x"}]}`, `[]`,
	} {
		assert.Assert(t, json.Unmarshal([]byte(bad), &decoded) != nil, bad)
	}
}
