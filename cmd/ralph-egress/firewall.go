package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"

	"github.com/docker-ralph/docker-ralph/lifecycle/egress/firewall"
)

var errFirewallUsage = errors.New("usage: ralph-egress firewall -proxy ADDRESS | -open")

// runFirewall puts rules into the network namespace in which it runs.
func runFirewall(_ context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("firewall", flag.ContinueOnError)
	flags.SetOutput(std.err)
	proxy := flags.String("proxy", "", "the only address that can be reached")
	open := flags.Bool("open", false, "let everything out but what no sandbox reaches")
	// One of the two must be said: a mistake must not open anything.
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *open == (*proxy != "") {
		return errFirewallUsage
	}
	var rules firewall.Rules
	if !*open {
		address, err := netip.ParseAddr(*proxy)
		if err != nil || !address.Is4() {
			return fmt.Errorf("%q is not an IPv4 address", *proxy)
		}
		rules.Proxy = address
	}
	return firewall.Apply(rules)
}
