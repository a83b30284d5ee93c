package microvm

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   egress.Policy
		want     string
		stricter string
	}{
		{"hosts", policyOf(t, egress.Allowlist, "a.example", "*.b.example:8443"), "policy=deny allow-host=a.example:80 allow-host=a.example:443 allow-host=*.b.example:8443", ""},
		{"a range", policyOf(t, egress.Allowlist, "db.example:5432=10.0.0.0/8"), "policy=deny allow-host=db.example:5432", "docker sandbox has no ranges for single hosts"},
		{"refused at one port", policyOf(t, egress.Allowlist, "a.example", "!a.example:80"), "policy=deny allow-host=a.example:443 block-host=a.example:80", ""},
		{"refused at all ports", policyOf(t, egress.Allowlist, "a.example.com:8443", "!*.example.com"), "policy=deny block-host=*.example.com:80 block-host=*.example.com:443 block-host=*.example.com", ""},
		{"refused below a wildcard", policyOf(t, egress.Allowlist, "*.example.com:443", "!a.example.com:443"), "policy=deny allow-host=*.example.com:443 block-host=a.example.com:443", ""},
		{"nothing", policyOf(t, egress.Deny), "policy=deny", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, got := settings(tc.policy)
			assert.Equal(t, strings.Join(want, " "), tc.want)
			assert.Check(t, is.Contains(strings.Join(got.stricter, "; "), tc.stricter))
			assert.Equal(t, len(got.stricter) > 0, tc.stricter != "")
		})
	}
	all, _ := settings(policyOf(t, egress.AllowAll, "!evil.example"))
	assert.Equal(t, all[0], "policy=allow")
	for _, want := range []string{"block-cidr=10.0.0.0/8", "block-cidr=169.254.0.0/16", "block-host=evil.example:443", "block-host=evil.example"} {
		assert.Check(t, slices.Contains(all, want), want)
	}
}

func TestProgress(t *testing.T) {
	first := []string{"policy=deny", "allow-host=a:443"}
	missing, known := progress(first, nil)
	assert.DeepEqual(t, missing, first)
	assert.DeepEqual(t, known, first)
	missing, known = progress(first, known)
	assert.Equal(t, len(missing), 0)

	blocked := []string{"policy=deny", "block-host=a:443"}
	missing, known = progress(blocked, known)
	assert.DeepEqual(t, missing, []string{"block-host=a:443"})
	assert.Assert(t, slices.Contains(known, "allow-host=a:443"), "nobody knows whether it is forgotten")
	missing, known = progress(first, known)
	assert.DeepEqual(t, missing, []string{"allow-host=a:443"}) // it was blocked meanwhile
	missing, _ = progress(first, known)
	assert.Equal(t, len(missing), 0)
}
