package microvm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The settings of "network proxy" (contract, section 4). The one that is more specific about
// host and port wins, the policy comes last.
const (
	setPolicy = "policy"
	allowHost = "allow-host"
	blockHost = "block-host"
	blockCIDR = "block-cidr"
)

// setting formats a setting, as in "allow-host=example.com:443".
func setting(name, value string) string { return name + "=" + value }

// defaultPolicyNote is the warning for every sandbox.
const defaultPolicyNote = "docker sandbox may also allow hosts of its default policy, which it does not list"

// restrict adds the settings that were not applied before. The plugin does not list those of
// a sandbox.
func (p *plugin) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, applied []string, save func([]string) error) (deviations, error) {
	want, is := settings(policy)
	if policy.Mode != egress.AllowAll {
		is.stricter = append(is.stricter, defaultPolicyNote)
	}
	for _, old := range applied {
		if host, ok := strings.CutPrefix(old, allowHost+"="); ok && !slices.Contains(want, old) {
			is.looser = append(is.looser, fmt.Sprintf("docker sandbox may still allow %s, which was allowed before: recreate the sandbox with --recreate", host))
		}
	}
	missing, known := progress(want, applied)
	if len(missing) == 0 {
		return is, nil
	}
	args := []string{"network", "proxy", name}
	for _, s := range missing {
		flag, value, _ := strings.Cut(s, "=")
		args = append(args, "--"+flag, value)
	}
	if _, err := d.call(ctx, limitList, args...); err != nil {
		return is, fmt.Errorf("adding network rules to sandbox %s: %w", name, err)
	}
	// Not before: saved settings are not applied again.
	return is, save(known)
}

// progress returns the settings to apply, and all that are applied then. A host that was
// blocked and is allowed again needs its setting once more.
func progress(want, applied []string) (missing, known []string) {
	known = slices.DeleteFunc(slices.Clone(applied), func(s string) bool {
		return strings.HasPrefix(s, blockHost+"=") && !slices.Contains(want, s)
	})
	for _, s := range want {
		host, allows := strings.CutPrefix(s, allowHost+"=")
		again := allows && slices.Contains(applied, setting(blockHost, host)) && !slices.Contains(want, setting(blockHost, host))
		if again || !slices.Contains(applied, s) {
			missing = append(missing, s)
		}
		if !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	return missing, known
}

// settings translates a policy. A pattern of the plugin's proxy is a host, or "*.x" for all
// hosts below x, with an optional port.
func settings(policy egress.Policy) (want []string, is deviations) {
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
			is.stricter = append(is.stricter, fmt.Sprintf("%s: docker sandbox has no ranges for single hosts", e.Rule))
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
		// A setting for a port wins over one for all.
		for _, port := range e.Rule.Ports() {
			add(blockHost, fmt.Sprintf("%s:%d", e.Rule.Host, port))
		}
		if e.Rule.Port == 0 {
			add(blockHost, e.Rule.Host)
		}
	}
	return want, is
}

// refused reports whether a policy refuses all hosts of a rule at a port.
func refused(policy egress.Policy, host string, port uint16) bool {
	return slices.ContainsFunc(policy.Refused, func(e egress.Entry) bool {
		suffix, wild := strings.CutPrefix(e.Rule.Host, "*")
		covers := e.Rule.Host == host || wild && strings.HasSuffix(host, suffix)
		return covers && (e.Rule.Port == 0 || e.Rule.Port == port)
	})
}

// otherRules returns none: the plugin does not list rules.
func (p *plugin) otherRules(context.Context, *Driver, string, []string) ([]lifecycle.ForeignRule, error) {
	return nil, nil
}
