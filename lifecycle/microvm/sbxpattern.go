package microvm

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
)

// pattern is a resource of a network rule as sbx reads it (contract, section
// 9.6): a host, "*.x" for one label before x, "**.x" for any number and x
// itself, "**" for everything, an address or a range; each maybe with a port.
type pattern struct {
	kind patternKind
	host string // without what stands for labels
	port uint16 // 0 for every port
}

type patternKind int

const (
	exactly    patternKind = iota
	oneLabel               // *.host
	anyLabels              // **.host, and host
	everything             // **
	address                // no name matches
)

// parsePattern reads a resource. What it does not understand is not ok, and
// must not be taken to match nothing.
func parsePattern(text string) (p pattern, ok bool) {
	if isAddress(text) {
		return pattern{kind: address, host: text}, true
	}
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || port == 0 {
			return pattern{}, false
		}
		host, p.port = text[:i], uint16(port)
	}
	switch name, wild := strings.CutPrefix(host, "**."); {
	case host == "**" || host == "*":
		p.kind = everything
		return p, true
	case isAddress(strings.Trim(host, "[]")):
		p.kind, p.host = address, host
		return p, true
	case wild:
		p.kind, host = anyLabels, name
	default:
		if name, wild = strings.CutPrefix(host, "*."); wild {
			p.kind, host = oneLabel, name
		}
	}
	var err error
	p.host, err = egress.Normalise(host)
	return p, err == nil
}

func isAddress(text string) bool {
	_, rangeErr := netip.ParsePrefix(text)
	_, err := netip.ParseAddr(text)
	return rangeErr == nil || err == nil
}

// below reports whether a name has more labels before another one.
func below(name, parent string) bool { return strings.HasSuffix(name, "."+parent) }

// meets reports whether there is a host, with a port, that the pattern and the
// rule both name.
func (p pattern) meets(r egress.Rule) bool {
	if p.port != 0 && !slices.Contains(r.Ports(), p.port) {
		return false
	}
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	switch p.kind {
	case exactly:
		return p.host == r.Host || wild && below(p.host, suffix)
	case oneLabel:
		if wild {
			return suffix == p.host || below(p.host, suffix)
		}
		label, is := strings.CutSuffix(r.Host, "."+p.host)
		return is && !strings.Contains(label, ".")
	case anyLabels:
		return suffix == p.host || below(suffix, p.host) || wild && below(p.host, suffix)
	case everything:
		return true
	case address:
	}
	return false
}

// hostsWithin reports whether the rule names every host that the pattern does.
func (p pattern) hostsWithin(r egress.Rule) bool {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	switch p.kind {
	case exactly:
		return p.host == r.Host || wild && below(p.host, suffix)
	case oneLabel:
		return wild && (suffix == p.host || below(p.host, suffix))
	case anyLabels:
		return wild && below(p.host, suffix)
	case everything, address:
	}
	return false
}

// allowedBy reports whether the policy allows all that the pattern matches.
func (p pattern) allowedBy(policy egress.Policy) bool {
	if policy.Mode == egress.AllowAll {
		return true // but for what is denied in any case
	}
	within := func(p pattern) bool {
		return slices.ContainsFunc(policy.InForce(), func(e egress.Entry) bool {
			return p.port != 0 && slices.Contains(e.Rule.Ports(), p.port) && p.hostsWithin(e.Rule)
		})
	}
	if within(p) {
		return true
	}
	return p.kind == anyLabels && within(pattern{exactly, p.host, p.port}) && slices.ContainsFunc(policy.InForce(), func(e egress.Entry) bool {
		return e.Rule.Host == "*."+p.host && slices.Contains(e.Rule.Ports(), p.port)
	})
}

// refusedBy reports whether the policy refuses all that the pattern matches, so
// that a rule of ours denies it already.
func (p pattern) refusedBy(policy egress.Policy) bool {
	return slices.ContainsFunc(policy.Refused, func(e egress.Entry) bool {
		ports := e.Rule.Port == 0 || e.Rule.Port == p.port
		return ports && (p.hostsWithin(e.Rule) || p.kind == anyLabels && e.Rule.Host == "*."+p.host)
	})
}

// meetsAny reports whether the policy allows something that the pattern matches.
func (p pattern) meetsAny(policy egress.Policy) bool {
	return policy.Mode == egress.AllowAll || slices.ContainsFunc(policy.InForce(), func(e egress.Entry) bool { return p.meets(e.Rule) })
}
