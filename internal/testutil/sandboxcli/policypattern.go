package sandboxcli

import (
	"net"
	"regexp"
	"strings"
)

// patternForm is a host with optional wildcards in front, or an address, each with an optional port.
var patternForm = regexp.MustCompile(`^(\*|\*\*|(\*\*?\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|[0-9.]+/[0-9]{1,2}|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// checkPatterns refuses malformed patterns (REL 0.45; which ones, and the words, are ?).
func (c *call) checkPatterns(patterns []string) error {
	for _, p := range patterns {
		_, _, err := net.ParseCIDR(p)
		if c.since(45) && err != nil && net.ParseIP(p) == nil && !patternForm.MatchString(p) {
			return c.fail("invalid pattern %q", p)
		}
	}
	return nil
}

// matches reports whether a pattern covers a host, or host:port (DOC S11; that
// **.x covers a bare x is MEAS v0.45.1 S21). A host alone is asked for with port
// 443 (DOC, "policy check network").
func matches(pattern, target string) bool {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		host, port = target, "443"
	}
	if _, block, err := net.ParseCIDR(pattern); err == nil {
		return net.ParseIP(host) != nil && block.Contains(net.ParseIP(host))
	}
	if before, after, found := strings.Cut(pattern, ":"); found {
		if after != port {
			return false
		}
		pattern = before
	}
	if pattern == "**" || pattern == host {
		return true
	}
	if suffix, ok := strings.CutPrefix(pattern, "**."); ok {
		return host == suffix || strings.HasSuffix(host, "."+suffix)
	}
	if suffix, ok := strings.CutPrefix(pattern, "*."); ok {
		label, isBelow := strings.CutSuffix(host, "."+suffix)
		return isBelow && !strings.Contains(label, ".")
	}
	return false
}
