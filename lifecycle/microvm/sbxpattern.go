package microvm

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
)

// anyLabel stands for a label that a wildcard matches. No rule names it.
const anyLabel = "docker-ralph-any-label"

// pattern is a resource of a network rule of sbx (contract, section 9.6): a host, "*.x"
// for one label before x, "**.x" for any number and x itself, "**" for everything, an
// address or a range; each with an optional port.
type pattern struct {
	// names has a name of each kind that the pattern matches. A rule that matches all
	// of them matches everything that the pattern does. An address has none.
	names   []string
	matches func(name string) bool
	port    uint16 // 0 for every port
}

// parsePattern parses a resource. One that is not ok can match anything.
func parsePattern(text string) (p pattern, ok bool) {
	p.matches = func(string) bool { return false }
	if isAddress(text) {
		return p, true
	}
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || port == 0 {
			return pattern{}, false
		}
		host, p.port = text[:i], uint16(port)
	}
	if isAddress(strings.Trim(host, "[]")) {
		return p, true
	}
	if host == "**" || host == "*" {
		p.names, p.matches = []string{anyLabel}, func(string) bool { return true }
		return p, true
	}
	host, several := strings.CutPrefix(host, "**.")
	host, one := strings.CutPrefix(host, "*.")
	host, err := egress.Normalise(host)
	if err != nil || several && one {
		return pattern{}, false
	}
	below := "." + host
	switch {
	case several:
		p.names = []string{host, anyLabel + below, anyLabel + "." + anyLabel + below}
		p.matches = func(name string) bool { return strings.HasSuffix("."+name, below) }
	case one:
		p.names = []string{anyLabel + below}
		p.matches = func(name string) bool {
			label, found := strings.CutSuffix(name, below)
			return found && !strings.Contains(label, ".")
		}
	default:
		p.names, p.matches = []string{host}, func(name string) bool { return name == host }
	}
	return p, true
}

func isAddress(text string) bool {
	_, rangeErr := netip.ParsePrefix(text)
	_, err := netip.ParseAddr(text)
	return rangeErr == nil || err == nil
}

// decidedBy reports whether a policy allows all that the pattern matches, or refuses it
// by rules of its own.
func (p pattern) decidedBy(policy egress.Policy) bool {
	undecided := func(name string) bool {
		refused := slices.ContainsFunc(policy.Refused, func(e egress.Entry) bool {
			return egress.Rule{Host: name, Port: p.port}.Within(e.Rule)
		})
		return !refused && !policy.Decide(name, p.port).Allowed
	}
	// AllowAll denies the rest in any case.
	return policy.Mode == egress.AllowAll || len(p.names) > 0 && !slices.ContainsFunc(p.names, undecided)
}

// overlaps reports whether a policy allows something that the pattern matches.
func (p pattern) overlaps(policy egress.Policy) bool {
	return len(p.names) > 0 && (policy.Mode == egress.AllowAll || slices.ContainsFunc(policy.InForce(), func(e egress.Entry) bool {
		suffix, wild := strings.CutPrefix(e.Rule.Host, "*")
		names := []string{e.Rule.Host}
		if wild {
			names = []string{anyLabel + suffix, anyLabel + "." + anyLabel + suffix}
		}
		within := func(name string) bool { return egress.Rule{Host: name, Port: e.Rule.Port}.Within(e.Rule) }
		return (p.port == 0 || slices.Contains(e.Rule.Ports(), p.port)) &&
			(slices.ContainsFunc(names, p.matches) || slices.ContainsFunc(p.names, within))
	}))
}
