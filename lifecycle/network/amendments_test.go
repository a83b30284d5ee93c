package network

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func hostRule(t *testing.T, text string) egress.Rule {
	t.Helper()
	r, err := egress.ParseRule(text)
	assert.NilError(t, err)
	return r
}

// The last rule wins, also after saving and loading.
func TestAmendments(t *testing.T) {
	entries := func(model bool, texts ...string) (all []egress.Entry) {
		for _, text := range texts {
			all = append(all, egress.Entry{Rule: hostRule(t, text), Origin: "a preset", Model: model})
		}
		return all
	}
	listed := egress.Policy{Mode: egress.Allowlist, Rules: entries(false, "github.com", "*.corp.example")}
	closed := egress.Policy{Mode: egress.Deny, Rules: entries(true, "model.example")}
	for _, tc := range []struct {
		name    string
		policy  egress.Policy
		said    string
		allowed string
		refused string
		unfit   string
	}{
		{"nothing", listed, "", "github.com:443 a.corp.example:80", "example.com:443", ""},
		{"allowed, then denied", listed, "+example.com -example.com", "github.com:443", "example.com:443 example.com:80", ""},
		{"denied, then allowed", listed, "-github.com +github.com", "github.com:443 github.com:80", "", ""},
		{"allowed with a range, then denied", listed, "+db.example=10.0.0.0/8 -db.example", "", "db.example:443", ""},
		{"allowed with a port, then denied", listed, "+github.com:8443 -github.com", "", "github.com:443 github.com:8443", ""},
		{"allowed, then a port denied", listed, "+example.com -example.com:443", "example.com:80", "example.com:443", ""},
		{"a port allowed, another one denied", listed, "+example.com:8443 -example.com:443", "example.com:8443", "example.com:443", ""},
		{"allowed, then all below denied", listed, "+api.example.com -*.example.com", "github.com:443", "api.example.com:443", ""},
		{"all below denied, then allowed", listed, "-*.example.com +api.example.com", "", "api.example.com:443", "api.example.com"},
		{"only the model, and it is denied", closed, "+example.com -model.example", "", "model.example:443 example.com:443", "example.com"},
		{"only the model", closed, "+example.com +model.example -*.example.com", "model.example:443", "example.com:443", "example.com"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{StateDir: t.TempDir()}
			a := amendments{Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}
			for _, said := range strings.Fields(tc.said) {
				a.add(hostRule(t, said[1:]), said[0] == '+')
				assert.NilError(t, writeAmendments(h, a))
				var err error
				a, err = readAmendments(h, a.Scope)
				assert.NilError(t, err)
			}
			p, without, err := a.apply(tc.policy)
			assert.NilError(t, err)
			for target := range strings.FieldsSeq(tc.allowed + " " + tc.refused) {
				r := hostRule(t, target)
				assert.Check(t, p.Decide(r.Host, r.Port).Allowed == strings.Contains(tc.allowed, target), "%s: %+v", target, p)
			}
			var rules []string
			for _, u := range without {
				rules = append(rules, u.rule.String())
				assert.ErrorContains(t, u.why, "cannot allow "+u.rule.String())
			}
			assert.Equal(t, strings.Join(rules, " "), tc.unfit)
		})
	}
}

// Two scopes can have sandboxes of one name.
func TestAmendmentsAreForOneScope(t *testing.T) {
	h := host.Host{StateDir: t.TempDir()}
	a := amendments{Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "a-b"}}
	a.add(hostRule(t, "db.example=10.0.0.0/8"), true)
	assert.NilError(t, writeAmendments(h, a))
	for _, other := range []gitrepo.Scope{{Repo: "acme/shop-a", Branch: "b"}, {Repo: "acme/shop", Branch: "a/b"}} {
		theirs, err := readAmendments(h, other)
		assert.NilError(t, err)
		assert.Equal(t, len(theirs.Allowed), 0)
		assert.Error(t, writeAmendments(h, theirs), `the network rules of ralph-acme-shop-a-b belong to acme/shop, branch "a-b"`)
	}
	own, err := readAmendments(h, a.Scope)
	assert.NilError(t, err)
	assert.Equal(t, len(own.Allowed), 1)
}
