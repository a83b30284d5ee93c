package microvm

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

// policyOf returns a policy with these rules; those with a "!" are denied.
func policyOf(t testing.TB, mode egress.Mode, rules ...string) egress.Policy {
	t.Helper()
	p := egress.Policy{Mode: mode}
	for _, written := range rules {
		text, refused := strings.CutPrefix(written, "!")
		r, err := egress.ParseRule(text)
		assert.NilError(t, err)
		if e := (egress.Entry{Rule: r, Origin: "test", Model: mode == egress.Deny}); refused {
			p.Refused = append(p.Refused, e)
		} else {
			p.Rules = append(p.Rules, e)
		}
	}
	return p
}

func TestTranslate(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   egress.Policy
		want     string
		stricter string
	}{
		{"hosts", policyOf(t, egress.Allowlist, "a.example", "b.example:8443"), "allow a.example:80, allow a.example:443, allow b.example:8443", ""},
		{"a wildcard without the name itself", policyOf(t, egress.Allowlist, "*.a.example:443"), "allow **.a.example:443, deny a.example:443", ""},
		{"a wildcard and the name itself", policyOf(t, egress.Allowlist, "*.a.example", "a.example"), "allow **.a.example:80, allow **.a.example:443, allow a.example:80, allow a.example:443", ""},
		{"a wildcard and the name at another port", policyOf(t, egress.Allowlist, "*.a.example:443", "a.example:22"), "allow **.a.example:443, deny a.example:443, allow a.example:22", ""},
		{"a range", policyOf(t, egress.Allowlist, "db.example:5432=10.0.0.0/8"), "allow db.example:5432", "db.example:5432=10.0.0.0/8: sbx has no ranges for single hosts"},
		{"refused hosts", policyOf(t, egress.Allowlist, "a.example", "!a.example", "!*.b.example:443"), "allow a.example:80, allow a.example:443, deny a.example, deny **.b.example:443", ""},
		{"a refused wildcard takes the name along", policyOf(t, egress.Allowlist, "b.example:443", "!*.b.example"), "allow b.example:443, deny **.b.example", "refusing *.b.example, sbx refuses b.example too"},
		{"the model alone", policyOf(t, egress.Deny, "api.example:443"), "allow api.example:443", ""},
		{"nothing at all", policyOf(t, egress.Deny), "deny **", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := translate(tc.policy)
			assert.Equal(t, strings.Join(formatAll(got.list), ", "), tc.want)
			assert.Check(t, is.Contains(strings.Join(got.stricter, "; "), tc.stricter))
			assert.Equal(t, len(got.stricter) > 0, tc.stricter != "")
		})
	}
	all := formatAll(translate(policyOf(t, egress.AllowAll, "!evil.example")).list)
	for _, want := range []string{"allow **", "deny evil.example", "deny localhost", "deny 10.0.0.0/8", "deny 169.254.0.0/16", "deny fd00:ec2::/32"} {
		assert.Check(t, slices.Contains(all, want), want)
	}
}

// Rules for all sandboxes are denied for this one, unless that would deny something that
// the policy allows.
func TestGlobalRules(t *testing.T) {
	policy := policyOf(t, egress.Allowlist, "github.com", "api.github.com", "*.a.example", "a.example", "!refused.example")
	for _, tc := range []struct {
		theirs string
		want   string // "within", "closed", "open" or "shut"
	}{
		{"github.com:443", "within"},
		{"x.a.example:443", "within"},
		{"*.a.example:80", "within"},
		{"**.a.example:80", "within"},
		{"**.b.a.example:443", "within"},
		{"refused.example", "within"}, // a rule of ours denies it already
		{"other.example", "closed"},
		{"github.com:22", "closed"},
		{"*.github.io:443", "closed"},
		{"**.chatgpt.com:443", "closed"},
		{"10.0.0.0/8", "closed"},
		{"10.1.2.3:22", "closed"},
		{"[fd00::1]:22", "closed"},
		{"localhost:1234", "closed"},
		{"*.github.com:22", "closed"},
		{"github.com", "open"}, // any port
		{"*.github.com:443", "open"},
		{"**.github.com:443", "open"},
		{"**.com:443", "open"},
		{"*.example:443", "open"}, // a.example and others
		{"**.a.example", "open"},
		{"**", "open"},
		{"foo*.bar.com:443", "open"}, // not understood
		{"github.com:https", "open"},
		{"", "open"},
		{"!github.com", "shut"},
		{"!other.example", "within"},
		{"!**.com", "shut"},
	} {
		t.Run(tc.theirs, func(t *testing.T) {
			resource, denied := strings.CutPrefix(tc.theirs, "!")
			decision := allow
			if denied {
				decision = deny
			}
			w := translate(policy)
			before := len(w.list)
			looser := w.denyExcess(policy, "box", []rule{{Name: "theirs", Decision: decision, Resources: []string{resource}}})
			assert.Equal(t, len(looser) > 0, tc.want == "open", "%v", looser)
			assert.Equal(t, len(w.stricter) > 0, tc.want == "shut", "%v", w.stricter)
			added := formatAll(w.list[before:])
			if tc.want == "closed" {
				assert.DeepEqual(t, added, []string{"deny " + resource})
			} else {
				assert.Equal(t, len(added), 0)
			}
		})
	}
}

func TestDenyAll(t *testing.T) {
	policy := policyOf(t, egress.Deny)
	for _, theirs := range []string{"**", "**.github.com:443", "github.com"} {
		w := translate(policy)
		assert.Equal(t, len(w.denyExcess(policy, "box", []rule{{Decision: allow, Resources: []string{theirs}}})), 0)
		assert.Equal(t, w.list[0].String(), "deny **")
	}
}

// A resource is decided by the policy only if the policy allows every host that it matches.
func FuzzGlobalRules(f *testing.F) {
	for _, seed := range []string{"github.com:443", "**", "*.a.example:80", "**.a.example:443", "10.0.0.0/8:80", "[::1]:80", "a:b:c", "*.*", "**.:1"} {
		f.Add(seed, "x.a.example")
	}
	policy := policyOf(f, egress.Allowlist, "github.com", "*.a.example", "a.example:443")
	f.Fuzz(func(t *testing.T, resource, host string) {
		p, ok := parsePattern(resource)
		name, err := egress.Normalise(host)
		if !ok || err != nil || !p.decidedBy(policy) || !p.matches(name) {
			return
		}
		for _, port := range []uint16{80, 443, 22} {
			if p.port == 0 || p.port == port {
				assert.Assert(t, policy.Decide(name, port).Allowed, "%s allows %s:%d", resource, name, port)
			}
		}
	})
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(`{"rules":[{"id":"1","name":"n","scope":"global","applies_to":"all","resource_type":"network","decision":"allow","resources":["**"],"origin":"local","status":"active","editable":true}]}`))
	f.Add([]byte("Starting sandboxd daemon...\n{\"rules\":null}"))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, output []byte) {
		rules, err := parseRules(output)
		assert.Assert(t, err == nil || len(rules) == 0)
		ours, others := partition(rules, "ours", []string{"allow **"})
		for _, found := range ours {
			assert.Assert(t, found[0].appliesOnlyTo("ours"))
		}
		for _, r := range others {
			assert.Assert(t, r.inForce() && len(r.Resources) > 0)
		}
	})
}

func TestDifference(t *testing.T) {
	ours := map[access][]rule{
		{allow, "a:443"}: {{ID: "1"}},
		{allow, "b:443"}: {{ID: "1"}},
		{deny, "c"}:      {{ID: "2"}},
		{deny, "d"}:      {{ID: "2"}, {ID: "3"}},
	}
	c := difference([]access{{allow, "a:443"}, {deny, "d"}, {deny, "e"}}, ours)
	assert.DeepEqual(t, c.drop, map[string][]string{allow: {"1"}, deny: {"2"}})
	assert.DeepEqual(t, formatAll(c.add), []string{"allow a:443", "deny e"}) // d is in another rule too
	assert.Assert(t, difference([]access{{allow, "a:443"}}, map[access][]rule{{allow, "a:443"}: {{ID: "1"}}}).none())
}

func TestCheck(t *testing.T) {
	want := []access{{allow, "a:443"}, {deny, "b"}, {allow, "c:443"}}
	there := []rule{{ID: "1"}}
	for _, tc := range []struct {
		name             string
		ours             map[access][]rule
		looser, stricter string
	}{
		{"all", map[access][]rule{want[0]: there, want[1]: there, want[2]: there}, "", ""},
		{"a rule less that allows", map[access][]rule{want[0]: there, want[1]: there}, "", "sbx has not applied allow c:443"},
		{"a rule less that denies", map[access][]rule{want[0]: there, want[2]: there}, "sbx has not applied deny b", ""},
		{"a rule that is not in force", map[access][]rule{want[0]: {{ID: "1", Status: "inactive"}}, want[1]: there, want[2]: there}, "", "sbx has not applied allow a:443"},
		{"a rule more that allows", map[access][]rule{want[0]: there, want[1]: there, want[2]: there, {allow, "x"}: there}, "sbx has not removed allow x", ""},
		{"a rule more that denies", map[access][]rule{want[0]: there, want[1]: there, want[2]: there, {deny, "x"}: there}, "", "sbx has not removed deny x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := check(deviations{}, want, tc.ours)
			assert.Check(t, is.Contains(strings.Join(got.looser, "; "), tc.looser))
			assert.Check(t, is.Contains(strings.Join(got.stricter, "; "), tc.stricter))
			assert.Equal(t, len(got.looser) > 0, tc.looser != "")
			assert.Equal(t, len(got.stricter) > 0, tc.stricter != "")
		})
	}
}
