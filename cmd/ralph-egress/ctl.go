package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/proxy"
)

var errCtlUsage = errors.New("usage: ralph-egress ctl policy|stats|reset, or ctl allow|deny [-origin TEXT] RULE…, or ctl routes [RULE…] < ROUTES")

// runCtl sends one request to the proxy of this container and prints the answer as JSON.
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
	case "policy", "stats", "reset":
		if len(order.Rules) > 0 {
			return errCtlUsage
		}
	case "allow", "deny":
		if len(order.Rules) == 0 {
			return errCtlUsage
		}
	case "routes":
		// Not in the arguments, because they contain keys.
		line, err := readLine(ctx, std.in)
		if err != nil {
			return fmt.Errorf("reading the routes: %w", err)
		}
		if order.Routes, err = egress.ReadRoutes(line); err != nil {
			return err
		}
	default:
		return errCtlUsage
	}
	answer, err := proxy.Control(ctx, order)
	if err != nil {
		return err
	}
	out := json.NewEncoder(std.out)
	switch {
	case order.Do == "routes":
		return out.Encode(answer.Routes)
	case answer.Stats != nil:
		return out.Encode(answer.Stats)
	}
	return out.Encode(answer.Policy)
}
