package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// routeKeys decides which keys of the agent stay with the proxy of a container.
// Without a network policy there is no proxy, and nothing is decided.
func routeKeys(ctx context.Context, h host.Host, t Target) (*credential.Routed, error) {
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
			h.Warn(err)
		}
	}
	return &keys, nil
}

// pushKeys hands the proxy the keys and endpoints of a command, and the command what
// routes its agent there. Nothing is sent that the proxy has already. done is to be
// called when the command has ended.
func pushKeys(ctx context.Context, h host.Host, r Ready, sb lifecycle.Sandbox, p lifecycle.Process) (routed lifecycle.Process, done func(), err error) {
	done = func() {}
	driver, ok := r.Driver.(*container.Driver)
	if !ok {
		return p, done, nil
	}
	keys, routes := r.routes()
	if len(routes)+len(r.endpoints) == 0 {
		return p, done, revokeKeys(ctx, h, driver, sb, nil, nil)
	}
	lease, err := leaseKeys(ctx, h, sb)
	if err != nil {
		return p, done, err
	}
	base, err := lease.push(ctx, driver, sb, routes, r.endpoints)
	if err != nil {
		lease.release()
		return p, done, err
	}
	if r.keys != nil {
		p.Env = append(slices.Clone(p.Env), r.keys.Environment(base)...)
	}
	if r.origin == nil {
		return p, lease.release, nil
	}
	p.Env = r.origin.environment(p.Env, base)
	return p, func() {
		lease.release()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		// It can push, so it does not stay until the next command.
		if err := revokeKeys(limited, h, driver, sb, keys, r.endpoints); err != nil {
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

// keyLease is the lock that commands share whose keys or endpoints the proxy of a sandbox
// has. Its file is empty if the proxy has none, and else says by a hash which.
type keyLease struct{ *flock.Flock }

func keyLeaseOf(h host.Host, sandbox string) keyLease {
	return keyLease{flock.New(filepath.Join(h.LockDir(), sandbox+".lent"))}
}

// unknownKeys is what the file says while the proxy has keys that are not known.
const unknownKeys = "unknown"

// leaseKeys records that the proxy of a sandbox may have keys. A sandbox for one command
// needs no record.
func leaseKeys(ctx context.Context, h host.Host, sb lifecycle.Sandbox) (keyLease, error) {
	if sb.Ephemeral {
		return keyLease{}, nil
	}
	l := keyLeaseOf(h, sb.Name)
	err := os.MkdirAll(h.LockDir(), 0o700)
	if err == nil {
		_, err = l.TryRLockContext(ctx, 10*time.Millisecond) // a command that revokes keys is soon done
	}
	if err == nil && l.content() == "" {
		err = l.write(unknownKeys)
	}
	if err != nil {
		return l, errors.Join(fmt.Errorf("recording that the proxy of %s has keys: %w", sb.Name, err), l.Close())
	}
	return l, nil
}

func (l keyLease) release() {
	if l.Flock != nil {
		_ = l.Close()
	}
}

func (l keyLease) content() string {
	content, _ := os.ReadFile(l.Path())
	return strings.TrimSpace(string(content))
}

func (l keyLease) write(content string) error {
	return os.WriteFile(l.Path(), []byte(content+"\n"), 0o600)
}

// push sends routes and endpoints to the proxy, unless it has the same since it was
// started. It returns the URL of the routes.
func (l keyLease) push(ctx context.Context, driver *container.Driver, sb lifecycle.Sandbox, routes []egress.Route, endpoints []string) (base string, err error) {
	if l.Flock == nil || sb.Run == "" {
		return driver.HandOver(ctx, sb, routes, endpoints)
	}
	encoded, err := json.Marshal([]any{sb.ID, sb.Run, routes, endpoints})
	if err != nil {
		return "", fmt.Errorf("hashing keys: %w", err)
	}
	sum := sha256.Sum256(encoded)
	hash := hex.EncodeToString(sum[:])
	if l.content() == hash {
		return container.RoutesURL(sb), nil
	}
	if err := l.write(hash); err != nil {
		return "", fmt.Errorf("recording that the proxy of %s has keys: %w", sb.Name, err)
	}
	base, err = driver.HandOver(ctx, sb, routes, endpoints)
	if err != nil || l.content() != hash { // another command has sent others meanwhile
		err = errors.Join(err, l.write(unknownKeys))
	}
	return base, err
}

// revokeKeys has the proxy of a sandbox forget all that commands have sent it but this.
// Commands that still run keep all of it.
func revokeKeys(ctx context.Context, h host.Host, driver *container.Driver, sb lifecycle.Sandbox, but []egress.Route, endpoints []string) error {
	l := keyLeaseOf(h, sb.Name)
	if sb.Proxy == "" || l.content() == "" {
		return nil
	}
	alone, err := l.TryLock()
	if err != nil {
		return fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	if !alone {
		return nil
	}
	defer l.release()
	if !commits.Idle(ctx, driver, sb) {
		return nil // what a killed command has started may need it
	}
	if _, err := driver.HandOver(ctx, sb, but, endpoints); err != nil {
		return err
	}
	if len(but)+len(endpoints) > 0 {
		err = l.write(unknownKeys)
	} else {
		err = os.Truncate(l.Path(), 0)
	}
	if err != nil {
		return fmt.Errorf("recording which keys the proxy of %s has: %w", sb.Name, err)
	}
	return nil
}
