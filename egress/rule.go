package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Rule names hosts that may be reached. It is written
//
//	HOST[:PORT][=RANGE[,RANGE…]]
//
//	github.com                  this host, ports 80 and 443
//	*.example.com               every host below example.com, not example.com itself
//	git.example.com:8443        this port and no other
//	db.corp.example=10.0.0.0/8  this host, even at a private address in 10.0.0.0/8
//
// Without a range a host is reached at public addresses only.
type Rule struct {
	// Host is a normalised name, or "*." before one.
	Host string
	// Port is the only port, or 0 for 80 and 443.
	Port uint16
	// Ranges are private ranges in which the host may be as well.
	Ranges []netip.Prefix
}

// ParseRule reads a rule. The error does not name it.
func ParseRule(text string) (Rule, error) {
	target, ranges, ranged := strings.Cut(text, "=")
	var rule Rule
	var err error
	if rule.Host, rule.Port, err = parseTarget(target); err != nil {
		return Rule{}, err
	}
	if ranged {
		if rule.Ranges, err = parseRanges(ranges); err != nil {
			return Rule{}, err
		}
	}
	return rule, nil
}

func parseTarget(target string) (host string, port uint16, err error) {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		return "", 0, fmt.Errorf("must be a host such as %q, not a URL", hostOf(rest))
	}
	if strings.ContainsAny(target, "/?#") {
		return "", 0, fmt.Errorf("must be a host without a path, such as %q", hostOf(target))
	}
	host = target
	if i := strings.LastIndexByte(target, ':'); i >= 0 && (!strings.Contains(target[:i], ":") || target[i-1] == ']') {
		n, err := strconv.ParseUint(target[i+1:], 10, 16)
		if err != nil || n == 0 || target[i+1] == '+' {
			return "", 0, fmt.Errorf("invalid port %q: must be between 1 and 65535", target[i+1:])
		}
		host, port = target[:i], uint16(n)
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	switch {
	case host == "*":
		return "", 0, hint.Wrap(errors.New("matches every host"), "to reach every public host, use the network policy %q", AllowAll)
	case strings.Contains(name, "*"):
		return "", 0, errors.New(`"*" can only stand for whole labels at the front, as in "*.example.com"`)
	}
	name, err = Normalise(name)
	switch {
	case errors.Is(err, ErrAddress):
		return "", 0, hint.Wrap(err, "name the host; for one at a private address, add that as in %q", "db.example.com=10.0.0.0/8")
	case err != nil:
		return "", 0, err
	case wildcard && !strings.Contains(name, "."):
		return "", 0, fmt.Errorf("must name a domain below %q, as in %q", name, "*.example."+name)
	case wildcard:
		name = "*." + name
	}
	return name, port, nil
}

// hostOf is for the advice in an error.
func hostOf(text string) string {
	if i := strings.IndexAny(text, "/?#"); i >= 0 {
		text = text[:i]
	}
	return text[strings.LastIndexByte(text, '@')+1:]
}

func parseRanges(text string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			addr, addrErr := netip.ParseAddr(part)
			if addrErr != nil {
				return nil, fmt.Errorf("invalid range %q: must be an address or a range such as 10.0.0.0/8", part)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix != prefix.Masked() {
			return nil, fmt.Errorf("range %s has bits set beyond its length, unlike %s", prefix, prefix.Masked())
		}
		if !overridable(prefix) {
			return nil, hint.Wrap(fmt.Errorf("%s is not inside a private range (%s)", prefix, privateText()),
				"public addresses need no range; loopback, link-local and metadata addresses are always blocked")
		}
		if !slices.Contains(ranges, prefix) {
			ranges = append(ranges, prefix)
		}
	}
	return ranges, nil
}

// String returns the rule as ParseRule reads it.
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Host)
	if r.Port != 0 {
		b.WriteString(":" + strconv.Itoa(int(r.Port)))
	}
	for i, prefix := range r.Ranges {
		b.WriteByte("=,"[min(i, 1)])
		b.WriteString(prefix.String())
	}
	return b.String()
}

// covers reports whether a normalised name falls under the rule. A wildcard
// ends at a label boundary: "*.b.c" covers "a.b.c", neither "b.c" nor "ab.c".
func (r Rule) covers(host string) bool {
	if suffix, ok := strings.CutPrefix(r.Host, "*"); ok {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return r.Host != "" && r.Host == host
}

// Within reports whether another rule, which is to be denied, names all that this
// one allows. A denial without a port is of every port.
func (r Rule) Within(denied Rule) bool {
	return (denied.Host == r.Host || denied.covers(r.Host)) && (denied.Port == 0 || denied.Port == r.Port)
}

// Ends reports whether allowing this rule ends the denial of another one.
func (r Rule) Ends(denied Rule) bool {
	return denied.Host == r.Host && (denied.Port == 0 || r.allowsPort(denied.Port))
}

// allowsPort reports whether the rule speaks of the port.
func (r Rule) allowsPort(port uint16) bool {
	return slices.Contains(r.Ports(), port)
}

// Ports returns the ports that the rule speaks of.
func (r Rule) Ports() []uint16 {
	if r.Port == 0 {
		return []uint16{80, 443}
	}
	return []uint16{r.Port}
}

// MarshalText implements encoding.TextMarshaler.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rule) UnmarshalText(text []byte) error {
	parsed, err := ParseRule(string(text))
	if err != nil {
		return fmt.Errorf("invalid network rule %q: %w", text, err)
	}
	*r = parsed
	return nil
}
