package microvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
)

// wish is a rule that a sandbox is to have for itself.
type wish struct {
	decision string // allow or deny, as sbx says it
	resource string
}

const (
	allow = "allow"
	deny  = "deny"
)

func (w wish) String() string { return w.decision + " " + w.resource }

// wishes collects the rules that a policy comes to.
type wishes struct {
	list     []wish
	stricter []string
}

func (w *wishes) add(decision, resource string) {
	if next := (wish{decision, resource}); !slices.Contains(w.list, next) {
		w.list = append(w.list, next)
	}
}

func withPort(host string, port uint16) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// translate puts a policy into the rules of sbx, where denying ones win.
func translate(policy egress.Policy) wishes {
	var w wishes
	if policy.Mode == egress.AllowAll {
		w.allowAll()
	}
	for _, e := range policy.InForce() {
		if len(e.Rule.Ranges) > 0 {
			w.stricter = append(w.stricter, fmt.Sprintf("%s: sbx ties no range to a host, so it decides by itself whether the host is reached there", e.Rule))
		}
		if policy.Mode != egress.AllowAll {
			w.allowRule(e.Rule, policy)
		}
	}
	for _, e := range policy.Refused {
		w.refuse(e.Rule, policy)
	}
	if policy.Mode != egress.AllowAll && len(policy.InForce()) == 0 {
		w.add(deny, "**")
	}
	return w
}

// allowAll allows everything but what is no public host. sbx reaches the
// machine itself by two names.
func (w *wishes) allowAll() {
	w.add(allow, "**")
	for _, name := range []string{"localhost", "host.docker.internal"} {
		w.add(deny, name)
	}
	for _, closed := range egress.ClosedRanges() {
		w.add(deny, closed.String())
	}
}

func (w *wishes) allowRule(r egress.Rule, policy egress.Policy) {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	for _, port := range r.Ports() {
		if !wild {
			w.add(allow, withPort(r.Host, port))
			continue
		}
		w.add(allow, withPort("**."+suffix, port))
		// sbx would allow the name itself too.
		if !policy.Decide(suffix, port).Allowed {
			w.add(deny, withPort(suffix, port))
		}
	}
}

func (w *wishes) refuse(r egress.Rule, policy egress.Policy) {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	if !wild {
		w.add(deny, withPort(r.Host, r.Port))
		return
	}
	w.add(deny, withPort("**."+suffix, r.Port))
	if policy.Named(suffix).Allowed {
		w.stricter = append(w.stricter, fmt.Sprintf("refusing %s, sbx refuses %s too", r, suffix))
	}
}

// fit adds what it takes to close what rules of others open, and says which
// cannot be closed: a rule that denies them would deny what the policy allows.
func (w *wishes) fit(policy egress.Policy, others []rule) (looser []string) {
	var open, shut []string
	for _, r := range others {
		for _, resource := range r.Resources {
			p, known := parsePattern(resource)
			switch {
			case r.Decision == deny:
				if known && p.meetsAny(policy) && p.kind != address {
					shut = append(shut, r.named(resource))
				}
			case known && (p.allowedBy(policy) || p.refusedBy(policy)):
			case known && !p.meetsAny(policy):
				w.add(deny, resource)
			default:
				open = append(open, r.named(resource))
			}
		}
	}
	if len(open) > 0 {
		looser = append(looser, fmt.Sprintf("your own rules of sbx allow more, and no rule for one sandbox can take a part away: %s. Take them out with \"sbx policy rm network\", or allow these hosts here too", shorten(open)))
	}
	if len(shut) > 0 {
		w.stricter = append(w.stricter, "your own rules of sbx come first where they deny: "+shorten(shut))
	}
	return looser
}

// shorten lists what has room on a line.
func shorten(list []string) string {
	const most = 5
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
