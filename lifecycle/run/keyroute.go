package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// routeKeys selects the agent's keys that stay with the proxy of a container; nil without a
// proxy.
func routeKeys(ctx context.Context, h host.Host, t Target) (*credential.Routed, error) {
	mode, command, cloud := t.spec.Egress.Policy.Mode, t.opts.Command, len(t.cloud) > 0
	if t.Kind != config.DriverContainer || mode == "" {
		return nil, nil
	}
	cfg := t.cfg
	agent := cfg.KeyAgent()
	warned := false
	router := credential.Router{LookupEnv: h.LookupEnv, Home: h.Home, Cloud: cloud, EndpointPaths: cfg.Agent.EndpointPaths, Warn: func(message string) {
		warned = true
		h.Report(message)
	}}
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
		return nil, err
	}
	for i := range keys.Routes {
		// Only the model's endpoint is allowed, and only with this key.
		keys.Routes[i].Exclusive = mode == egress.Deny
	}
	if len(keys.Exposed) > 0 {
		h.Report(fmt.Sprintf("Warning: %s goes into the sandbox, where the agent can read it: %s", strings.Join(keys.Exposed, ", "), why))
	}
	if !cloud && !warned && (host.IsLoop(command) || command == host.RunCommand) {
		if err := missingKey(h, agent, keys); err != nil {
			h.Warn(err)
		}
	}
	return &keys, nil
}

// pushKeys sends the proxy the keys and endpoints of a command, and adds the variables that
// route its agent there. done has to be called after the command.
func pushKeys(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, p lifecycle.Process) (routed lifecycle.Process, done func(), err error) {
	done = func() {}
	driver, ok := r.Driver.(*container.Driver)
	keys, routes := r.routes()
	if !ok || len(routes)+len(r.endpoints) == 0 {
		return p, done, nil
	}
	base, err := keyRecord(h.AgentKeys(sb.Name)).push(ctx, driver, sb, routes, r.endpoints)
	if err != nil {
		return p, done, err
	}
	if r.keys != nil {
		p.Env = append(slices.Clone(p.Env), r.keys.Environment(base)...)
	}
	if r.origin == nil {
		return p, done, nil
	}
	p.Env = r.origin.environment(p.Env, base)
	return p, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		// The token may allow pushes: it is not kept until the next command.
		if err := revokeKeys(limited, h, driver, sb, keys, r.endpoints); err != nil {
			h.Report(fmt.Sprintf("Warning: the proxy of %s keeps the token for the git host until the next command: %v", sb.Name, err))
		}
	}, nil
}

// routes returns the proxy's routes for the agent's keys, and all routes.
func (r Ready) routes() (keys, all []egress.Route) {
	if r.keys != nil {
		keys = r.keys.Routes
	}
	all = slices.Clone(keys)
	if r.origin != nil {
		all = append(all, r.origin.route)
	}
	return keys, all
}

// keyRecord is the path of [host.Host.AgentKeys]. The file is empty if the proxy has no keys
// and endpoints, and has a hash of them otherwise.
type keyRecord string

// unknownKeys is the content while the proxy may have any keys.
const unknownKeys = "unknown"

func (r keyRecord) content() string {
	content, _ := os.ReadFile(string(r))
	return strings.TrimSpace(string(content))
}

func (r keyRecord) write(content string) error {
	if err := os.WriteFile(string(r), []byte(content+"\n"), 0o600); err != nil {
		return fmt.Errorf("recording which keys the proxy has: %w", err)
	}
	return nil
}

// push sends routes and endpoints to the proxy, unless it has the same since it was
// started. It returns the URL of the routes. A sandbox for one command needs no record.
func (r keyRecord) push(ctx context.Context, driver *container.Driver, sb lifecycle.Sandbox, routes []egress.Route, endpoints []string) (base string, err error) {
	if sb.Ephemeral {
		return driver.SendRoutes(ctx, sb, routes, endpoints)
	}
	hash := unknownKeys
	if sb.Run != "" {
		encoded, err := json.Marshal([]any{sb.ID, sb.Run, routes, endpoints})
		if err != nil {
			return "", fmt.Errorf("hashing keys: %w", err)
		}
		sum := sha256.Sum256(encoded)
		hash = hex.EncodeToString(sum[:])
		if r.content() == hash {
			return container.RoutesURL(sb), nil
		}
	}
	if err := r.write(hash); err != nil {
		return "", err
	}
	base, err = driver.SendRoutes(ctx, sb, routes, endpoints)
	if err != nil || r.content() != hash { // another command has sent others meanwhile
		err = errors.Join(err, r.write(unknownKeys))
	}
	return base, err
}

// revokeUnused revokes the keys of earlier commands before one that needs none.
func (r Ready) revokeUnused(ctx context.Context, h host.Host, sb lifecycle.Sandbox) error {
	driver, ok := r.Driver.(*container.Driver)
	if _, routes := r.routes(); !ok || len(routes)+len(r.endpoints) > 0 {
		return nil
	}
	return revokeKeys(ctx, h, driver, sb, nil, nil)
}

// revokeKeys makes the proxy of a sandbox forget the keys and endpoints of commands, except
// for some, unless an agent works in the sandbox.
func revokeKeys(ctx context.Context, h host.Host, driver *container.Driver, sb lifecycle.Sandbox, but []egress.Route, endpoints []string) error {
	record := keyRecord(h.AgentKeys(sb.Name))
	if sb.Proxy == "" || record.content() == "" {
		return nil
	}
	unlock, err := h.TryLockAgents(sb.Name)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if !commits.Idle(ctx, driver, sb) {
		return nil // a process of a killed command may need them
	}
	if _, err := driver.SendRoutes(ctx, sb, but, endpoints); err != nil && !errdefs.IsNotFound(err) { // removed with its keys
		return err
	}
	if len(but)+len(endpoints) > 0 {
		return record.write(unknownKeys)
	}
	return record.write("")
}
