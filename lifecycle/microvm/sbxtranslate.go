package microvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
)

// access is a rule for a sandbox alone.
type access struct {
	action   string // allow or deny
	resource string
}

const (
	allow = "allow"
	deny  = "deny"
)

func (w access) String() string { return w.action + " " + w.resource }

// translation is a policy as rules of sbx.
type translation struct {
	list     []access
	stricter []string
}

func (w *translation) add(decision, resource string) {
	if next := (access{decision, resource}); !slices.Contains(w.list, next) {
		w.list = append(w.list, next)
	}
}

func joinPort(host string, port uint16) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// translate translates a policy. Of the rules of sbx, those that deny win.
func translate(policy egress.Policy) translation {
	var w translation
	if policy.Mode == egress.AllowAll {
		w.allowAll()
	}
	for _, e := range policy.InForce() {
		if len(e.Rule.Ranges) > 0 {
			w.stricter = append(w.stricter, fmt.Sprintf("%s: sbx has no ranges for single hosts", e.Rule))
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

// allowAll allows all public hosts. sbx has two names for the host.
func (w *translation) allowAll() {
	w.add(allow, "**")
	for _, name := range []string{"localhost", "host.docker.internal"} {
		w.add(deny, name)
	}
	for _, closed := range egress.ClosedRanges() {
		w.add(deny, closed.String())
	}
}

func (w *translation) allowRule(r egress.Rule, policy egress.Policy) {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	for _, port := range r.Ports() {
		if !wild {
			w.add(allow, joinPort(r.Host, port))
			continue
		}
		w.add(allow, joinPort("**."+suffix, port))
		// sbx allows the name itself too.
		if !policy.Decide(suffix, port).Allowed {
			w.add(deny, joinPort(suffix, port))
		}
	}
}

func (w *translation) refuse(r egress.Rule, policy egress.Policy) {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	if !wild {
		w.add(deny, joinPort(r.Host, r.Port))
		return
	}
	w.add(deny, joinPort("**."+suffix, r.Port))
	if policy.Named(suffix).Allowed {
		w.stricter = append(w.stricter, fmt.Sprintf("refusing %s, sbx refuses %s too", r, suffix))
	}
}

// denyExcess denies what other rules allow beyond the policy. It returns those that cannot be denied
// without denying something that the policy allows, or because they are for this sandbox too: sbx
// refuses to deny what the same scope allows.
func (w *translation) denyExcess(policy egress.Policy, name string, others []rule) (looser []string) {
	var open, shut []string
	for _, r := range others {
		for _, resource := range r.Resources {
			p, known := parsePattern(resource)
			switch {
			case r.Decision == deny:
				if known && p.overlaps(policy) {
					shut = append(shut, r.describe(resource))
				}
			case known && p.decidedBy(policy):
			case known && !p.overlaps(policy) && !r.appliesOnlyTo(name):
				w.add(deny, resource)
			default:
				open = append(open, r.describe(resource))
			}
		}
	}
	if len(open) > 0 {
		looser = append(looser, fmt.Sprintf("your own rules of sbx allow more: %s (remove them with \"sbx policy rm network\", or allow these hosts here too)", shorten(open)))
	}
	if len(shut) > 0 {
		w.stricter = append(w.stricter, "your own rules of sbx deny "+shorten(shut))
	}
	return looser
}

// shorten joins the first few.
func shorten(list []string) string {
	const most = 5
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
