package sandboxcli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// network is "network log" and "network proxy SANDBOX" (DOC S13). There is no
// proxy: what is asked for is kept, and [Request] goes by it.
func (c *call) network(args []string) (int, error) {
	verb, args := first(args)
	fs := c.flags("network " + verb)
	switch verb {
	case "log":
		asJSON := fs.Bool("json", false, "") // CODE S20; the shape is ?
		if _, err := c.parse(fs, args); err != nil {
			return 0, err
		}
		return 0, c.printLog("", *asJSON)
	case "proxy":
		return c.networkProxy(fs, args)
	}
	return 0, c.fail("docker: unknown command: docker sandbox network %s", verb)
}

func (c *call) networkProxy(fs *pflag.FlagSet, args []string) (int, error) {
	policy := fs.String("policy", "", "")
	lists := map[string]*[]string{}
	for _, name := range []string{"allow-host", "block-host", "bypass-host", "allow-cidr", "block-cidr", "bypass-cidr"} {
		lists[name] = fs.StringArray(name, nil, "")
	}
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("network proxy", args, 1, 1); err != nil {
		return 0, err
	}
	if !slices.Contains([]string{"", "allow", "deny"}, *policy) { // ?
		return 0, c.fail("invalid policy %q", *policy)
	}
	if f := c.settings.Faults.NoRules; f != "" {
		return 0, c.fail("%s", f)
	}
	var wishes []string
	if *policy != "" {
		wishes = append(wishes, "policy="+*policy)
	}
	for name, values := range lists {
		for _, value := range *values {
			wishes = append(wishes, name+"="+value)
		}
	}
	slices.Sort(wishes)
	return 0, c.setNetwork(args[0], wishes)
}

func (c *call) setNetwork(name string, wishes []string) error {
	if !c.validName(name) {
		return c.errNotFound(name)
	}
	return c.withLocked(name, c.errNotFound(name), func(r record) error {
		if r.Status != running { // DOC S15: it must run; the words are ?
			return c.fail("sandbox %q is not running", name)
		}
		r.Network = append(r.Network, wishes...)
		return c.store.save(r)
	})
}

// decideBySettings applies what a sandbox's proxy was set to. Which setting wins
// is DOC S15: the one that names host and port more exactly, and the policy, which
// is "allow" at first, after all. Of two for the same, that the later one wins is
// ?.
func decideBySettings(settings []string, target string) (allowed bool, rule string) {
	best := -1
	allowed, rule = true, "<default policy>"
	for _, s := range settings {
		name, pattern, _ := strings.Cut(s, "=")
		rank := 0
		switch name {
		case "policy":
			if best <= 0 {
				allowed, best = pattern == "allow", 0
			}
			continue
		case "allow-host", "block-host":
			rank = exactness(pattern, target)
		}
		if rank > 0 && rank >= best {
			allowed, rule, best = name == "allow-host", pattern, rank
		}
	}
	return allowed, rule
}

// exactness ranks a pattern that matches a host:port; 0 if it does not. "*.x" is
// for all hosts below x, and not for x.
func exactness(pattern, target string) int {
	host, port, _ := strings.Cut(target, ":")
	name, only, limited := strings.Cut(pattern, ":")
	if limited && only != port {
		return 0
	}
	var rank int
	suffix, wild := strings.CutPrefix(name, "*")
	switch {
	case wild && strings.HasSuffix(host, suffix):
		rank = 2 * len(name)
	case name == host:
		rank = 2000
	default:
		return 0
	}
	if limited {
		rank++
	}
	return rank
}
