package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
)

var errFirewallUsage = errors.New("usage: ralph-egress firewall -proxy ADDRESS | -open [-near NETWORK ...]")

// runFirewall sets the rules of the network namespace in which it runs.
func runFirewall(_ context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("firewall", flag.ContinueOnError)
	flags.SetOutput(std.err)
	proxy := flags.String("proxy", "", "the only address that can be reached")
	open := flags.Bool("open", false, "let everything out but what no sandbox reaches")
	var rules firewall.Rules
	flags.Func("near", "a further network that cannot be reached", func(s string) error {
		near, err := netip.ParsePrefix(s)
		if err == nil && !near.Addr().Is4() {
			err = fmt.Errorf("%q is not an IPv4 network", s)
		}
		rules.Near = append(rules.Near, near)
		return err
	})
	// One of the two is required: a mistake must not allow anything.
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *open == (*proxy != "") || *proxy != "" && rules.Near != nil {
		return errFirewallUsage
	}
	if !*open {
		address, err := netip.ParseAddr(*proxy)
		if err != nil || !address.Is4() {
			return fmt.Errorf("%q is not an IPv4 address", *proxy)
		}
		rules.Proxy = address
	}
	return firewall.Apply(rules)
}
