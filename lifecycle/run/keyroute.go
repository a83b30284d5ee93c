package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// keepKeys decides which keys of the agent stay with the proxy of a container.
// Without a network policy there is no proxy, and nothing is decided.
func keepKeys(ctx context.Context, h host.Host, t Target) (*credential.Routed, error) {
	mode, command, cloud := t.spec.Egress.Policy.Mode, t.opts.Command, len(t.cloud) > 0
	if t.Kind != config.DriverContainer || mode == "" || command == host.TaskCommand {
		return nil, nil
	}
	cfg := t.cfg
	agent := cfg.Agent.Name
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
		// The endpoint of the model is all that is left, and then with this key only.
		keys.Routes[i].Exclusive = mode == egress.Deny
	}
	if len(keys.Exposed) > 0 {
		h.Report(fmt.Sprintf("Warning: %s goes into the sandbox, where the agent can read it: %s", strings.Join(keys.Exposed, ", "), why))
	}
	if !cloud && !warned && (host.IsLoop(command) || command == host.RunCommand) {
		if err := missingKey(h, agent, keys); err != nil {
			warn(h, err)
		}
	}
	return &keys, nil
}

// handOver gives the proxy the keys and endpoints of a command, and the command
// what leads its agent there. The proxy may have been started by an earlier command,
// with keys that have changed since, so it is told always. done is to be called when
// the command has ended.
func handOver(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, p lifecycle.Process) (led lifecycle.Process, done func(), err error) {
	done = func() {}
	driver, ok := r.Driver.(*container.Driver)
	if !ok {
		return p, done, nil
	}
	keys, routes := r.routes()
	if len(routes)+len(r.endpoints) == 0 {
		return p, done, takeBack(ctx, h, driver, sb, nil, nil)
	}
	release, err := lend(ctx, h, sb)
	if err != nil {
		return p, done, err
	}
	base, err := driver.HandOver(ctx, sb, routes, r.endpoints)
	if err != nil {
		release()
		return p, done, err
	}
	if r.keys != nil {
		p.Env = append(slices.Clone(p.Env), r.keys.Environment(base)...)
	}
	if r.origin == nil {
		return p, release, nil
	}
	p.Env = r.origin.environment(p.Env, base)
	return p, func() {
		release()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		// It can push, so it does not stay until the next command.
		if err := takeBack(limited, h, driver, sb, keys, r.endpoints); err != nil {
			h.Report(fmt.Sprintf("Warning: the proxy of %s keeps the token for the git host until the next command: %v", sb.Name, err))
		}
	}, nil
}

// routes are those that the proxy of a container is given for a command: those for
// the agent's keys, and all.
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

// lent is the lock that commands hold which have lent the proxy of a sandbox keys or
// endpoints. As long as that has them, the file is not empty.
func lent(h host.Host, sandbox string) *flock.Flock {
	return flock.New(filepath.Join(h.LockDir(), sandbox+".lent"))
}

// lend notes that the proxy of a sandbox is about to get something.
func lend(ctx context.Context, h host.Host, sb lifecycle.Sandbox) (release func(), err error) {
	if sb.Ephemeral {
		return func() {}, nil // no other command comes
	}
	lock := lent(h, sb.Name)
	err = os.MkdirAll(h.LockDir(), 0o700)
	if err == nil {
		_, err = lock.TryRLockContext(ctx, 10*time.Millisecond) // one that takes back is soon done
	}
	if err == nil {
		err = os.WriteFile(lock.Path(), []byte("lent\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("noting that the proxy of %s has keys: %w", sb.Name, err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

// takeBack has the proxy of a sandbox forget all that commands have lent it but
// this. Commands that still run keep all of it.
func takeBack(ctx context.Context, h host.Host, driver *container.Driver, sb lifecycle.Sandbox, but []egress.Route, endpoints []string) error {
	lock := lent(h, sb.Name)
	if info, err := os.Stat(lock.Path()); sb.Proxy == "" || errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	alone, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	if !alone {
		return nil
	}
	defer func() { _ = lock.Close() }()
	if !commits.Idle(ctx, driver, sb) {
		return nil // what a killed command has started may need it
	}
	if _, err := driver.HandOver(ctx, sb, but, endpoints); err != nil || len(but)+len(endpoints) > 0 {
		return err
	}
	if err := os.Truncate(lock.Path(), 0); err != nil {
		return fmt.Errorf("noting that the proxy of %s has no keys: %w", sb.Name, err)
	}
	return nil
}
