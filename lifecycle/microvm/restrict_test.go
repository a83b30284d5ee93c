//go:build unix

package microvm_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// restricted is a fixture with a sandbox that has a network policy.
type restricted struct {
	*fixture
	sb   lifecycle.Sandbox
	spec lifecycle.Spec
	said []string
}

// entries are rules of a policy.
func entries(t *testing.T, rules ...string) (all []egress.Entry) {
	t.Helper()
	for _, text := range rules {
		r, err := egress.ParseRule(text)
		assert.NilError(t, err)
		all = append(all, egress.Entry{Rule: r, Origin: "test"})
	}
	return all
}

// newRestricted creates a sandbox with a policy. The global policy of sbx denies everything.
func newRestricted(t *testing.T, kind string, e lifecycle.Egress, rules ...string) (*restricted, error) {
	t.Helper()
	w := &restricted{fixture: newFixture(t, kind, func(s *sandboxcli.Settings) { s.PolicyInitialised = false })}
	w.sbx(t, "policy", "init", "deny-all")
	for _, r := range rules {
		w.sbx(t, "policy", "allow", "network", r)
	}
	w.driver.Report = func(m string) { w.said = append(w.said, m) }
	w.spec = w.fixture.spec(t)
	w.spec.Egress = e
	var err error
	if w.sb, err = w.driver.Create(t.Context(), w.spec); err != nil {
		return w, err
	}
	return w, w.driver.Prepare(t.Context(), w.sb, w.spec)
}

// sbx runs a user's command of sbx.
func (b *fixture) sbx(t *testing.T, args ...string) string {
	t.Helper()
	out, err := b.fake.Sbx(t.Context(), args...).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return string(out)
}

// reaches reports whether the program allows a request of a sandbox.
func (w *restricted) reaches(t *testing.T, target string) bool {
	t.Helper()
	allowed, err := sandboxcli.Request(t.Context(), w.fake.Dir, w.kind, w.sb.Name, target)
	assert.NilError(t, err)
	return allowed
}

func (w *restricted) restrict(t *testing.T, amended egress.Policy) error {
	t.Helper()
	e := w.spec.Egress
	e.Amended = amended
	return w.driver.Restrict(t.Context(), w.sb, e)
}

// calls returns the calls that list or change rules.
func (w *restricted) calls(t *testing.T) int {
	t.Helper()
	calls, err := sandboxcli.Calls(w.fake.Dir)
	assert.NilError(t, err)
	n := 0
	for _, c := range calls {
		if slices.Contains(c.Args, w.sb.Name) && (slices.Contains(c.Args, "policy") || slices.Contains(c.Args, "network")) {
			n++
		}
	}
	return n
}

// Preparing a sandbox can take minutes, in which the user may allow a host.
func TestHostAllowedDuringPrepareCanBeRevoked(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "github.com")}
		w, err := newRestricted(t, kind, lifecycle.Egress{Policy: policy, Asked: true}, "other.example", "**.chatgpt.com:443")
		assert.NilError(t, err)
		allow := sync.OnceFunc(func() {
			assert.NilError(t, w.restrict(t, egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "github.com", "a.example")}))
		})
		assert.NilError(t, w.driver.BeforeCalls(allow).Prepare(t.Context(), w.sb, w.spec))
		assert.Check(t, w.reaches(t, "a.example:443"))
		applied, err := w.driver.ForeignRules(t.Context(), w.sb.Name)
		assert.NilError(t, err)
		for _, rule := range applied {
			assert.Check(t, !strings.Contains(rule.Host, "a.example"), "it is not recognized as ours")
		}
		err = w.restrict(t, policy)
		assert.Check(t, err != nil || !w.reaches(t, "a.example:443"), "an agent is started, and the host is allowed")
	})
}

func TestPolicyIsEnforced(t *testing.T) {
	hosts := []string{"github.com", "api.github.com", "a.example", "x.a.example", "x.y.a.example", "b.example", "x.b.example", "evil.b.example", "other.example", "refused.example", "localhost"}
	list := entries(t, "github.com", "*.a.example", "a.example:8443", "b.example", "*.b.example:443", "refused.example")
	for name, policy := range map[string]egress.Policy{
		"allowlist":        {Mode: egress.Allowlist, Rules: list},
		"with refusals":    {Mode: egress.Allowlist, Rules: list, Refused: entries(t, "refused.example", "evil.b.example", "a.example:8443")},
		"deny":             {Mode: egress.Deny, Rules: []egress.Entry{{Rule: list[0].Rule, Model: true}}},
		"deny, and no one": {Mode: egress.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, kind string) {
				w, err := newRestricted(t, kind, lifecycle.Egress{Policy: policy, Asked: true}, "**.chatgpt.com:443", "other.example")
				assert.NilError(t, err)
				for _, host := range hosts {
					for port, text := range map[uint16]string{80: ":80", 443: ":443", 8443: ":8443", 22: ":22"} {
						assert.Check(t, is.Equal(w.reaches(t, host+text), policy.Decide(host, port).Allowed), "%s%s", host, text)
					}
				}
				before := w.calls(t)
				assert.NilError(t, w.driver.Restrict(t.Context(), w.sb, w.spec.Egress))
				asks := 1 // the list
				if kind == microvm.DockerSandbox {
					asks = 0
				}
				assert.Equal(t, w.calls(t)-before, asks, "nothing is applied twice")
			})
		})
	}
}

func TestAllowAllBlocksPrivateNetworks(t *testing.T) {
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: egress.Policy{Mode: egress.AllowAll}, Asked: true}, "10.0.0.0/8", "localhost:1234")
	assert.NilError(t, err)
	for target, want := range map[string]bool{"far.example:443": true, "far.example:22": true, "10.1.2.3:443": false, "169.254.169.254:80": false, "localhost:1234": false} {
		assert.Check(t, is.Equal(w.reaches(t, target), want), target)
	}
}

// A rule for all sandboxes that allows a part of what the policy does and more cannot be
// narrowed.
func TestGlobalRulesAreNotChanged(t *testing.T) {
	policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "api.github.com")}
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: policy, Asked: true}, "**.github.com:443", "github.com")
	assert.ErrorContains(t, err, `driver sbx cannot enforce the network policy "allowlist": your own rules of sbx allow more`)
	// The other one is closed.
	assert.ErrorContains(t, err, `: **.github.com:443 (remove them with "sbx policy rm network", `)
	global := w.sbx(t, "policy", "check", "network", "github.com")
	assert.Equal(t, global, "Allowed: github.com\n")

	// By default it is a warning, once.
	w.spec.Egress.Asked = false
	for range 2 {
		assert.NilError(t, w.driver.Prepare(t.Context(), w.sb, w.spec))
		assert.NilError(t, w.driver.Restrict(t.Context(), w.sb, w.spec.Egress))
	}
	assert.Equal(t, len(w.said), 1, "%q", w.said)
	assert.Check(t, is.Contains(w.said[0], `Warning: the network policy "allowlist" is not fully enforced by sbx: your own rules of sbx allow more`))
	assert.Check(t, w.reaches(t, "www.github.com:443"))
	assert.Check(t, !w.reaches(t, "github.com:22"))
}

func TestLaterGlobalRuleIsDenied(t *testing.T) {
	policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "github.com")}
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: policy, Asked: true})
	assert.NilError(t, err)
	w.sbx(t, "policy", "allow", "network", "late.example")
	assert.Check(t, w.reaches(t, "late.example:443"))
	assert.NilError(t, w.driver.Restrict(t.Context(), w.sb, w.spec.Egress))
	assert.Check(t, !w.reaches(t, "late.example:443"))
	otherRules, err := w.driver.ForeignRules(t.Context(), w.sb.Name)
	assert.NilError(t, err)
	assert.Equal(t, len(otherRules), 1)
	assert.Equal(t, otherRules[0].Host+" "+otherRules[0].Decision, "late.example refused")

	w.sbx(t, "policy", "allow", "network", "**")
	err = w.driver.Restrict(t.Context(), w.sb, w.spec.Egress)
	assert.ErrorContains(t, err, "driver sbx cannot enforce")
}

// sbx refuses to deny what a rule of the user allows this sandbox. The others are denied all the same.
func TestRuleOfTheUserForTheSandboxIsNamed(t *testing.T) {
	policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "github.com")}
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: policy, Asked: true})
	assert.NilError(t, err)
	w.sbx(t, "policy", "allow", "network", "--sandbox", w.sb.Name, "own.example")
	w.sbx(t, "policy", "allow", "network", "late.example")
	err = w.driver.Restrict(t.Context(), w.sb, w.spec.Egress)
	assert.ErrorContains(t, err, "your own rules of sbx allow more: own.example (remove them with")
	assert.Check(t, !w.reaches(t, "late.example:443"))
	assert.Check(t, w.reaches(t, "github.com:443"))
}

func TestPolicyIsAmended(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "github.com", "b.example")}
		w, err := newRestricted(t, kind, lifecycle.Egress{Policy: policy, Asked: true}, "far.example:443")
		assert.NilError(t, err)
		assert.Check(t, !w.reaches(t, "far.example:443"))
		more, err := policy.Allow(entries(t, "far.example")[0])
		assert.NilError(t, err)
		assert.NilError(t, w.restrict(t, more))
		assert.Check(t, w.reaches(t, "far.example:443"))
		assert.Check(t, w.reaches(t, "b.example:443"))

		less, err := more.Refuse(entries(t, "b.example")[0])
		assert.NilError(t, err)
		err = w.restrict(t, less)
		assert.Check(t, !w.reaches(t, "b.example:443"))
		assert.Check(t, w.reaches(t, "far.example:443"))
		if kind == microvm.DockerSandbox { // it lists no rules
			assert.ErrorContains(t, err, "docker sandbox may still allow b.example:80")
			assert.ErrorContains(t, err, "--recreate")
		} else {
			assert.NilError(t, err)
		}
		assert.NilError(t, w.restrict(t, more))
		assert.Check(t, w.reaches(t, "b.example:443"))

		made, err := w.driver.CreatedPolicy(w.sb.Name)
		assert.NilError(t, err)
		assert.DeepEqual(t, made, policy)
	})
}

func TestPolicyCannotBeSet(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		for _, asked := range []bool{true, false} {
			b := newFixture(t, kind, func(s *sandboxcli.Settings) { s.Faults.NoRules = "unknown command" })
			var said []string
			b.driver.Report = func(m string) { said = append(said, m) }
			spec := b.spec(t)
			spec.Egress = lifecycle.Egress{Policy: egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example")}, Asked: asked}
			sb, err := b.driver.Create(t.Context(), spec)
			assert.NilError(t, err)
			assert.Equal(t, sb.Egress, egress.Allowlist)
			err = b.driver.Prepare(t.Context(), sb, spec)
			if asked {
				assert.ErrorContains(t, err, "driver "+kind+` cannot enforce the network policy "allowlist"`)
				assert.DeepEqual(t, hint.Of(err), []string{"use the container driver"})
				continue
			}
			assert.NilError(t, err)
			assert.Equal(t, len(said), 1, "%q", said)
		}
	})
}

// With rules of an organization, ours that allow are ignored.
func TestOrganizationRulesTakePrecedence(t *testing.T) {
	b := newFixture(t, microvm.Sbx, func(s *sandboxcli.Settings) { s.Governed = true })
	var said []string
	b.driver.Report = func(m string) { said = append(said, m) }
	spec := b.spec(t)
	spec.Egress = lifecycle.Egress{Policy: egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example", "*.b.example")}, Asked: true}
	sb, err := b.driver.Create(t.Context(), spec)
	assert.NilError(t, err)
	assert.NilError(t, b.driver.Prepare(t.Context(), sb, spec))
	assert.Equal(t, len(said), 1)
	assert.Check(t, is.Contains(said[0], "sbx has not applied allow a.example:80"))
	calls := func() int {
		all, err := sandboxcli.Calls(b.fake.Dir)
		assert.NilError(t, err)
		return len(all)
	}
	before := calls()
	assert.NilError(t, b.driver.Restrict(t.Context(), sb, spec.Egress))
	assert.Equal(t, calls()-before, 1, "applied rules are not added again")
	assert.Equal(t, len(said), 1, "the warning is printed once")
}

func TestRequests(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		w, err := newRestricted(t, kind, lifecycle.Egress{Policy: egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example")}, Asked: true})
		assert.NilError(t, err)
		none, err := w.driver.Requests(t.Context(), w.sb.Name)
		assert.NilError(t, err)
		assert.Equal(t, len(none), 0)
		for _, target := range []string{"far.example:443", "a.example:443", "far.example:443"} {
			w.reaches(t, target)
		}
		got, err := w.driver.Requests(t.Context(), w.sb.Name)
		assert.NilError(t, err)
		assert.Equal(t, len(got), 2)
		assert.Equal(t, got[0].Host, "far.example")
		assert.Assert(t, got[0].Refused && got[0].Count == 2 && got[0].Port == 443 && !got[0].Last.IsZero())
		assert.Assert(t, got[1].Host == "a.example" && !got[1].Refused)

		w.fake.Set(t, func(s *sandboxcli.Settings) { s.Faults.NoLog = "unknown command" })
		_, err = w.driver.Requests(t.Context(), w.sb.Name)
		assert.ErrorContains(t, err, "reading the network log: ")
	})
}

func TestNoPolicyMakesNoCalls(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		sb, spec := b.suite(t).Up(t)
		assert.NilError(t, b.driver.Restrict(t.Context(), sb, spec.Egress))
		calls, err := sandboxcli.Calls(b.fake.Dir)
		assert.NilError(t, err)
		for _, c := range calls {
			line := strings.Join(c.Args, " ")
			assert.Check(t, !strings.Contains(line, "policy") && !strings.Contains(line, "network"), line)
		}
	})
}

// sbx refuses to deny a host beside the rule that allows it, and to remove a rule unasked.
func TestAllowedHostCanBeDenied(t *testing.T) {
	policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example", "b.example")}
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: policy, Asked: true})
	assert.NilError(t, err)
	assert.Assert(t, w.reaches(t, "a.example:443"))

	denied, err := policy.Refuse(entries(t, "a.example")[0])
	assert.NilError(t, err)
	assert.NilError(t, w.restrict(t, denied))
	assert.Assert(t, !w.reaches(t, "a.example:443") && w.reaches(t, "b.example:443"))
	assert.NilError(t, w.restrict(t, policy))
	assert.Assert(t, w.reaches(t, "a.example:443") && w.reaches(t, "b.example:443"))
	assert.Equal(t, len(w.said), 0, w.said)
}

// A rule that the user changes now, and that sbx refuses, is an error and no warning.
func TestRefusedChangeIsAnError(t *testing.T) {
	policy := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example")}
	w, err := newRestricted(t, microvm.Sbx, lifecycle.Egress{Policy: policy})
	assert.NilError(t, err)
	w.fake.Set(t, func(s *sandboxcli.Settings) { s.Faults.NoRules = "the daemon is busy" })
	more := egress.Policy{Mode: egress.Allowlist, Rules: entries(t, "a.example", "b.example")}
	err = w.driver.Restrict(t.Context(), w.sb, lifecycle.Egress{Policy: policy, Amended: more, Now: true})
	assert.ErrorContains(t, err, "adding network rules to sandbox")
	assert.NilError(t, w.restrict(t, more), "only a warning without the user")
	assert.Equal(t, len(w.said), 1)
}
