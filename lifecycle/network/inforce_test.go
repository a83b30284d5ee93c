package network

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestPolicyInForceIsThatOfTheSandbox(t *testing.T) {
	allowlist, deny := egress.Policy{Mode: egress.Allowlist}, egress.Policy{Mode: egress.Deny}
	for _, tc := range []struct {
		name       string
		sb         lifecycle.Sandbox
		made, want egress.Mode
		said       string
	}{
		{"no sandbox", lifecycle.Sandbox{State: lifecycle.NotFound}, egress.Allowlist, egress.Allowlist, ""},
		{"same", lifecycle.Sandbox{State: lifecycle.Stopped, Egress: egress.Allowlist}, egress.Allowlist, egress.Allowlist, ""},
		{"created with another", lifecycle.Sandbox{State: lifecycle.Stopped, Egress: egress.Deny}, egress.Deny, egress.Deny, `the configuration has the policy "allowlist", which needs --recreate`},
		{"running without a proxy", lifecycle.Sandbox{State: lifecycle.Running, Egress: egress.Deny}, egress.Deny, egress.Deny, "listing the rules in force"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			h := host.Host{Stderr: &said, StateDir: t.TempDir()}
			n := networkScope{scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}, sb: tc.sb, made: deny}
			if tc.made == egress.Allowlist {
				n.made = allowlist
			}
			policy, err := inForce(t.Context(), h, n, allowlist)
			assert.NilError(t, err)
			assert.Equal(t, policy.Mode, tc.want)
			assert.Check(t, is.Contains(said.String(), tc.said))
			assert.Equal(t, said.Len() > 0, tc.said != "")
		})
	}
}
