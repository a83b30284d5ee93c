// Package egress is the network policy of sandboxes: its rules and presets, the
// addresses that no name may resolve to, and the messages between the plugin and the
// proxy. The subpackages enforce it.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Limits of DNS, in bytes.
const (
	maxName  = 253
	maxLabel = 63
)

// ErrAddress is in the error of Normalise for what is an address and not a
// name, in whatever spelling.
var ErrAddress = errors.New("an address, not a host name")

// Normalise returns the one spelling in which names are compared: lower case,
// without a trailing dot. What is not clearly a host name is refused, never
// repaired: two programs that repair differently are how filters get fooled.
// Names in other scripts must come in punycode ("xn--…").
func Normalise(host string) (string, error) {
	name := strings.TrimSuffix(host, ".")
	switch {
	case name == "":
		return "", errors.New("empty host name")
	case len(name) > maxName:
		return "", fmt.Errorf("invalid host name %.40q…: longer than %d characters", host, maxName)
	}
	lower, err := lowerASCII(name)
	if err != nil {
		return "", fmt.Errorf("invalid host name %q: %w", host, err)
	}
	if isAddress(lower) {
		return "", fmt.Errorf("%q is %w", host, ErrAddress)
	}
	for label := range strings.SplitSeq(lower, ".") {
		switch {
		case label == "":
			return "", fmt.Errorf("invalid host name %q: empty label", host)
		case len(label) > maxLabel:
			return "", fmt.Errorf("invalid host name %.40q…: label longer than %d characters", host, maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return "", fmt.Errorf("invalid host name %q: label %q begins or ends with a hyphen", host, label)
		}
	}
	return lower, nil
}

// lowerASCII also lets through the characters of addresses, so that these get
// an error of their own.
func lowerASCII(name string) (string, error) {
	lower := []byte(name)
	for i, c := range lower {
		switch {
		case 'A' <= c && c <= 'Z':
			lower[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		case c == ':', c == '[', c == ']':
			if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
				return "", ErrAddress
			}
			return "", fmt.Errorf("invalid character %q", rune(c))
		case c >= 0x80:
			return "", errors.New("must be in punycode (xn--…)")
		default:
			return "", fmt.Errorf("invalid character %q", rune(c))
		}
	}
	return string(lower), nil
}

// isAddress reports whether some program might take the name for an IPv4
// address: 1.2.3.4, 3405803796, 0x7f.1, 0177.0.0.1 and so on. In all of them,
// and in no name that is in use, the last label is a number.
func isAddress(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// Printable returns a host for display, quoted if it has characters that names and
// addresses do not have. The agent chooses the hosts in logs.
func Printable(host string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_' || r == ':'
	}
	if host != "" && strings.IndexFunc(host, func(r rune) bool { return !plain(r) }) < 0 {
		return host
	}
	return strconv.QuoteToASCII(host)
}
