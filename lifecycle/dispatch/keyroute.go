package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/credential"
	"github.com/docker-ralph/docker-ralph/lifecycle/egress"
)

// keepKeys decides which keys of the agent stay with the proxy of a container.
// Without a network policy there is no proxy, and nothing is decided.
func (h Host) keepKeys(ctx context.Context, cfg config.Effective, at *place, spec *lifecycle.Spec, cloud bool, command string) error {
	mode := spec.Egress.Policy.Mode
	if at.kind != config.DriverContainer || mode == "" || command == taskCommand {
		return nil
	}
	agent := cfg.Agent.Name
	router := credential.Router{LookupEnv: h.LookupEnv, Home: h.Home, Cloud: cloud, Warn: h.report}
	if runtime.GOOS == "darwin" {
		router.Keychain = credential.KeychainProgram
	}
	why := "the proxy cannot add it to requests of " + agent
	if mode == egress.AllowAll {
		router.NoProxy = true
		why = fmt.Sprintf("with the network policy %q there is no proxy to add it to requests", mode)
	}
	keys, err := router.Route(ctx, agent, cfg.Env.Pass)
	if err != nil {
		return err
	}
	for i := range keys.Routes {
		// The endpoint of the model is all that is left, and then with this key only.
		keys.Routes[i].Exclusive = mode == egress.Deny
	}
	if len(keys.Exposed) > 0 {
		h.report(fmt.Sprintf("Warning: %s goes into the sandbox, where the agent can read it: %s", strings.Join(keys.Exposed, ", "), why))
	}
	at.keys, spec.Egress.Routes = &keys, keys.Routes
	return nil
}

// handOver gives the proxy the keys and endpoints of a command, and the command
// what leads its agent there. The proxy may have been started by an earlier command, with keys
// that have changed since, so it is told always.
func (h Host) handOver(ctx context.Context, at place, sb lifecycle.Sandbox, p lifecycle.Process) (lifecycle.Process, error) {
	driver, ok := at.driver.(*container.Driver)
	var routes []egress.Route
	if at.keys != nil {
		routes = slices.Clone(at.keys.Routes)
	}
	if at.origin != nil {
		routes = append(routes, at.origin.route)
	}
	if ok && len(at.endpoints) > 0 {
		order := append([]string{"allow", "-model", "-origin", endpointOrigin}, at.endpoints...)
		if _, err := driver.Control(ctx, sb, order...); err != nil {
			return p, err
		}
	}
	if !ok || len(routes) == 0 {
		return p, nil
	}
	base, err := driver.HandOver(ctx, sb, routes)
	if err != nil {
		return p, err
	}
	if at.keys != nil {
		p.Env = append(slices.Clone(p.Env), at.keys.Environment(base)...)
	}
	if at.origin != nil {
		p.Env = at.origin.environment(p.Env, base)
	}
	return p, nil
}
