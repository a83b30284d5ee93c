package microvm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The settings of "network proxy", as far as they are needed (contract, section
// 4). Which of two wins is documented: the one that names the host and port more
// exactly, and after them all the policy.
const (
	setPolicy = "policy"
	allowHost = "allow-host"
	blockHost = "block-host"
	blockCIDR = "block-cidr"
)

// setting is one of them with its value, as in "allow-host=example.com:443".
func setting(name, value string) string { return name + "=" + value }

// ownDefault is said once of every sandbox.
const ownDefault = "docker sandbox may also let it reach the hosts that are allowed in its own default policy, and cannot be asked which these are"

// restrict tells what was not told before: the plugin shows nobody how a sandbox is
// set, so what it was told is all that is known.
func (p *plugin) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, told []string, note func([]string) error) (kept, error) {
	want, is := settings(policy)
	if policy.Mode != egress.AllowAll {
		is.stricter = append(is.stricter, ownDefault)
	}
	for _, old := range told {
		if host, ok := strings.CutPrefix(old, allowHost+"="); ok && !slices.Contains(want, old) {
			is.looser = append(is.looser, fmt.Sprintf("docker sandbox was told to allow %s before, and cannot be asked whether it has taken that back. Make the sandbox anew with --recreate", host))
		}
	}
	missing, known := progress(want, told)
	if len(missing) == 0 {
		return is, nil
	}
	args := []string{"network", "proxy", name}
	for _, s := range missing {
		flag, value, _ := strings.Cut(s, "=")
		args = append(args, "--"+flag, value)
	}
	if _, err := d.call(ctx, limitList, args...); err != nil {
		return is, fmt.Errorf("adding network rules to the sandbox %s: %w", name, err)
	}
	// Not before: what is noted is not told again.
	return is, note(known)
}

// progress returns what has yet to be told, and what is known to have been then.
// What was blocked and is allowed again has to be told once more.
func progress(want, told []string) (missing, known []string) {
	known = slices.DeleteFunc(slices.Clone(told), func(s string) bool {
		return strings.HasPrefix(s, blockHost+"=") && !slices.Contains(want, s)
	})
	for _, s := range want {
		host, allows := strings.CutPrefix(s, allowHost+"=")
		again := allows && slices.Contains(told, setting(blockHost, host)) && !slices.Contains(want, setting(blockHost, host))
		if again || !slices.Contains(told, s) {
			missing = append(missing, s)
		}
		if !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	return missing, known
}

// settings puts a policy into settings of the plugin's proxy. A pattern there is
// a host or "*.x" for all hosts below x, with a port or for any.
func settings(policy egress.Policy) (want []string, is kept) {
	add := func(name, value string) {
		if s := setting(name, value); !slices.Contains(want, s) {
			want = append(want, s)
		}
	}
	if policy.Mode == egress.AllowAll {
		add(setPolicy, "allow")
		for _, closed := range egress.ClosedRanges() {
			add(blockCIDR, closed.String())
		}
	} else {
		add(setPolicy, "deny")
	}
	for _, e := range policy.InForce() {
		if len(e.Rule.Ranges) > 0 {
			is.stricter = append(is.stricter, fmt.Sprintf("%s: docker sandbox ties no range to a host, so it decides by itself whether the host is reached there", e.Rule))
		}
		if policy.Mode == egress.AllowAll {
			continue
		}
		for _, port := range e.Rule.Ports() {
			if !refused(policy, e.Rule.Host, port) {
				add(allowHost, fmt.Sprintf("%s:%d", e.Rule.Host, port))
			}
		}
	}
	for _, e := range policy.Refused {
		// A setting for the port comes before one for all.
		for _, port := range e.Rule.Ports() {
			add(blockHost, fmt.Sprintf("%s:%d", e.Rule.Host, port))
		}
		if e.Rule.Port == 0 {
			add(blockHost, e.Rule.Host)
		}
	}
	return want, is
}

// refused reports whether the policy refuses all hosts of a rule at a port.
func refused(policy egress.Policy, host string, port uint16) bool {
	return slices.ContainsFunc(policy.Refused, func(e egress.Entry) bool {
		suffix, wild := strings.CutPrefix(e.Rule.Host, "*")
		covers := e.Rule.Host == host || wild && strings.HasSuffix(host, suffix)
		return covers && (e.Rule.Port == 0 || e.Rule.Port == port)
	})
}

// standing has nothing to tell: the plugin lists no rules.
func (p *plugin) standing(context.Context, *Driver, string, []string) ([]lifecycle.StandingRule, error) {
	return nil, nil
}
