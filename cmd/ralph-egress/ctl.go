package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"

	"github.com/docker-ralph/docker-ralph/lifecycle/egress/proxy"
)

var errCtlUsage = errors.New("usage: ralph-egress ctl policy|stats, or ctl allow|deny [-origin TEXT] RULE…")

// runCtl sends one order to the proxy of this container. The answer is JSON.
func runCtl(ctx context.Context, args []string, std streams) error {
	if len(args) == 0 {
		return errCtlUsage
	}
	flags := flag.NewFlagSet("ctl", flag.ContinueOnError)
	flags.SetOutput(std.err)
	origin := flags.String("origin", "docker ralph network", "where the rules come from")
	if err := flags.Parse(args[1:]); err != nil {
		return errCtlUsage
	}
	order := proxy.Order{Do: args[0], Rules: flags.Args(), Origin: *origin}
	switch order.Do {
	case "policy", "stats":
		if len(order.Rules) > 0 {
			return errCtlUsage
		}
	case "allow", "deny":
		if len(order.Rules) == 0 {
			return errCtlUsage
		}
	default:
		return errCtlUsage
	}
	answer, err := proxy.Control(ctx, order)
	if err != nil {
		return err
	}
	out := json.NewEncoder(std.out)
	if answer.Stats != nil {
		return out.Encode(answer.Stats)
	}
	return out.Encode(answer.Policy)
}
