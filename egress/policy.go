package egress

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Mode is the kind of a policy. The zero Mode allows nothing.
type Mode string

// The modes.
const (
	AllowAll  Mode = "allow-all" // every public host
	Deny      Mode = "deny"      // the agent's model and nothing else
	Allowlist Mode = "allowlist" // what the rules name
)

// ParseMode parses a mode. The error does not name it.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case AllowAll, Deny, Allowlist:
		return mode, nil
	}
	return "", fmt.Errorf("use %s, %s or %s", Allowlist, Deny, AllowAll)
}

// Entry is a rule and its origin.
type Entry struct {
	Rule Rule `json:"rule"`
	// Origin is shown to the user: "preset git", "ralph.toml", "--allow".
	Origin string `json:"origin"`
	// Model marks the agent's model endpoint, all that is left under Deny.
	Model bool `json:"model,omitempty"`
}

// Policy is what a sandbox may reach. The zero Policy, and an empty list, allow
// nothing. Values are immutable: Allow and Refuse return new ones.
type Policy struct {
	Mode  Mode    `json:"mode"`
	Rules []Entry `json:"rules"`
	// Refused wins over Rules, and over AllowAll. Here a rule without a port
	// is for every port.
	Refused []Entry `json:"refused,omitempty"`
}

// Verdict is the answer of a policy.
type Verdict struct {
	Allowed bool
	// Host is the normalised name, or what was asked for if there is none.
	Host string
	Port uint16
	// Why is the origin of the rule that allows, or the reason of the refusal.
	Why string
	// Hint is a rule that would allow it, or "" when no rule does.
	Hint string
	// Ranges are the private ranges in which the host may be.
	Ranges []netip.Prefix
	// Literal reports whether Host is an IP address, which AllowAll allows.
	Literal bool
	// Own reports whether Host is an endpoint that the user has set. Policies do
	// not apply to it.
	Own bool
}

// whyLocal is the reason of a refusal that no rule ends.
const whyLocal = "the sandbox itself, which is reached without the proxy: see NO_PROXY"

// Decide says whether a host may be reached at a port. What its name leads to
// is for Guard to check.
func (p Policy) Decide(host string, port uint16) Verdict {
	if IsLocal(host) {
		return Verdict{Host: strings.TrimSuffix(strings.ToLower(host), "."), Port: port, Why: whyLocal}
	}
	name, err := Normalise(host)
	if err != nil {
		return p.decideAddress(host, port, err)
	}
	v := Verdict{Host: name, Port: port}
	if port == 0 {
		v.Why = "no port"
		return v
	}
	for _, e := range p.Refused {
		if e.Rule.covers(name) && (e.Rule.Port == 0 || e.Rule.Port == port) {
			v.Why, v.Hint = "denied by "+e.Origin, ruleFor(name, port)
			return v
		}
	}
	named := p.applyRules(&v)
	switch {
	case v.Allowed:
	case p.Mode == AllowAll:
		v.Allowed, v.Why = true, "policy allow-all"
	case p.Mode == Deny:
		v.Why = "policy deny"
	case p.Mode == Allowlist && named:
		v.Why, v.Hint = fmt.Sprintf("port %d not in allowlist", port), ruleFor(name, port)
	case p.Mode == Allowlist:
		v.Why, v.Hint = "not in allowlist", ruleFor(name, port)
	default:
		v.Why = "no policy"
	}
	return v
}

// applyRules completes the verdict and reports whether a rule names the host,
// if only for another port.
func (p Policy) applyRules(v *Verdict) (named bool) {
	for _, e := range p.InForce() {
		if !e.Rule.covers(v.Host) {
			continue
		}
		named = true
		if !e.Rule.allowsPort(v.Port) {
			continue
		}
		if !v.Allowed {
			v.Allowed, v.Why = true, e.Origin
		}
		v.Ranges = append(v.Ranges, e.Rule.Ranges...)
	}
	return named
}

// decideAddress decides for IP addresses. They are allowed where nothing is restricted
// by name. Ambiguous spellings are denied.
func (p Policy) decideAddress(host string, port uint16, err error) Verdict {
	v := Verdict{Host: host, Port: port, Why: "not a host name"}
	if !errors.Is(err, ErrAddress) {
		return v
	}
	v.Why = "an address, not a name"
	addr, parseErr := netip.ParseAddr(host)
	if p.Mode == AllowAll && len(p.Refused) == 0 && parseErr == nil && addr.String() == host && port != 0 {
		v.Allowed, v.Literal, v.Why = true, true, "policy allow-all"
	}
	return v
}

// Named reports whether the host may be reached at some port, which is all that
// a resolver can be asked.
func (p Policy) Named(host string) Verdict {
	v := p.Decide(host, 443)
	if v.Literal {
		return Verdict{Host: host, Why: "an address, not a name"}
	}
	if v.Allowed {
		return v
	}
	for _, e := range p.InForce() {
		if e.Rule.covers(v.Host) {
			if other := p.Decide(host, cmp.Or(e.Rule.Port, 80)); other.Allowed {
				return other
			}
		}
	}
	return v
}

// InForce returns the rules that count in the policy's mode.
func (p Policy) InForce() []Entry {
	switch p.Mode {
	case AllowAll, Allowlist:
		return p.Rules
	case Deny:
		return slices.DeleteFunc(slices.Clone(p.Rules), func(e Entry) bool { return !e.Model })
	}
	return nil
}

// ruleFor returns the rule that would allow a host.
func ruleFor(name string, port uint16) string {
	if port == 80 || port == 443 {
		return name
	}
	return Rule{Host: name, Port: port}.String()
}

// Allow returns the policy with one more rule. It ends a refusal of the same
// host; one that is wider stays, and is the error.
func (p Policy) Allow(e Entry) (Policy, error) {
	next := Policy{Mode: p.Mode, Rules: slices.Clone(p.Rules)}
	for _, refused := range p.Refused {
		if e.Rule.Ends(refused.Rule) {
			continue
		}
		next.Refused = append(next.Refused, refused)
		if refused.Rule.covers(e.Rule.Host) && (refused.Rule.Port == 0 || e.Rule.allowsPort(refused.Rule.Port)) {
			return Policy{}, fmt.Errorf("cannot allow %s: %s denies %s", e.Rule, refused.Origin, refused.Rule)
		}
	}
	same := func(old Entry) bool { return old.Rule.String() == e.Rule.String() }
	if slices.ContainsFunc(next.InForce(), same) {
		return next, nil
	}
	if p.Mode == Deny && !e.Model {
		return Policy{}, fmt.Errorf("cannot allow %s: the network policy is %q, which allows nothing but the agent's model", e.Rule, Deny)
	}
	next.Rules = append(next.Rules, e)
	return next, nil
}

// EndpointOrigin is how rules for endpoints of a command's own are shown.
const EndpointOrigin = "the agent's own endpoint"

// WithEndpoints returns the policy with these endpoints of a command's own, in place
// of those that it has.
func (p Policy) WithEndpoints(rules []Rule) (Policy, error) {
	next := Policy{Mode: p.Mode, Refused: slices.Clone(p.Refused)}
	for _, e := range p.Rules {
		if e.Origin != EndpointOrigin {
			next.Rules = append(next.Rules, e)
		}
	}
	for _, rule := range rules {
		var err error
		if next, err = next.Allow(Entry{Rule: rule, Origin: EndpointOrigin, Model: true}); err != nil {
			return Policy{}, err
		}
	}
	return next, nil
}

// Refuse returns the policy without what the rule names, whatever else allows
// it. A rule without a port refuses every port. What the same origin has allowed of
// it before is forgotten: it does not come back with a later allowance.
func (p Policy) Refuse(e Entry) (Policy, error) {
	if len(e.Rule.Ranges) > 0 {
		return Policy{}, hint.Wrap(fmt.Errorf("cannot block %s: a range cannot be blocked", e.Rule), "name the host without a range")
	}
	next := Policy{Mode: p.Mode, Refused: slices.Clone(p.Refused)}
	for _, old := range p.Rules {
		if old.Origin != e.Origin || !old.Rule.Within(e.Rule) {
			next.Rules = append(next.Rules, old)
		}
	}
	if !slices.ContainsFunc(next.Refused, func(old Entry) bool { return old.Rule.String() == e.Rule.String() }) {
		next.Refused = append(next.Refused, e)
	}
	return next, nil
}

// UnmarshalJSON refuses what it does not understand: a policy that is half
// understood is not a policy.
func (p *Policy) UnmarshalJSON(data []byte) error {
	type plain Policy
	var read plain
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return fmt.Errorf("reading a network policy: %w", err)
	}
	if _, err := ParseMode(string(read.Mode)); err != nil {
		return fmt.Errorf("invalid network policy %q: %w", read.Mode, err)
	}
	*p = Policy(read)
	return nil
}
