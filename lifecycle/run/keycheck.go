package run

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// missingKey is the warning for an agent without a key, or nil. The agent may still have one in
// its image, or from a login in the sandbox.
func missingKey(h host.Host, agent string, keys credential.Routed) error {
	variables := credential.KeyVariables(agent)
	if len(variables) == 0 || len(keys.Routes) > 0 || slices.ContainsFunc(credential.Names(agent), func(name string) bool { return h.Getenv(name) != "" }) {
		return nil
	}
	err := fmt.Errorf("%s has no key: %s is not set", agent, strings.Join(variables, " or "))
	if agent == "claude" {
		return hint.Wrap(err, "set one of them, or sign in with %q on this machine", agent)
	}
	return hint.Wrap(err, "set %s", variables[0])
}

// modelWatch reports failed requests of the proxy to the agent's model: a rejected key, an
// unreachable target. Agents retry for minutes, and do not know the variable of the key.
type modelWatch struct {
	host     host.Host
	keys     credential.Routed
	mu       sync.Mutex
	reported map[string]bool
}

// watchModel reports failures since begun, until stop is called.
func (h session) watchModel(ctx context.Context, r Ready, sb lifecycle.Sandbox, begun time.Time) (w *modelWatch, stop func()) {
	driver, ok := r.Driver.(*container.Driver)
	if !ok || r.keys == nil || len(r.keys.Routes) == 0 || r.opts.Raw {
		return nil, func() {}
	}
	if h.Terminal != nil {
		h.Stderr = RawLines{h.Stderr}
	}
	w = &modelWatch{host: h.Host, keys: *r.keys, reported: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = network.Decisions(ctx, driver, sb, begun, true, w.report) // read again at the end
	}()
	return w, func() { cancel(); <-done }
}

// report reports each failure once.
func (w *modelWatch) report(d egress.Decision) {
	if w == nil || d.Decision != egress.Failed {
		return
	}
	key, known := w.keys.KeyOf(d.Route)
	if !known {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := fmt.Sprint(d.Route, d.Status, d.Why)
	if !w.reported[id] {
		w.reported[id] = true
		w.host.Warn(modelFailure(d, key))
	}
}

// modelFailure returns the error for a failed request, with the variable to check.
func modelFailure(d egress.Decision, key credential.Key) error {
	target := egress.Printable(d.Host)
	if d.Port != 443 || key.Endpoint != "" {
		target = net.JoinHostPort(target, strconv.Itoa(int(d.Port)))
	}
	why := termsafe.Line(d.Why)
	switch {
	case d.Status == 0:
		err := fmt.Errorf("the agent's model at %s cannot be reached: %s", target, why)
		if key.Endpoint != "" {
			return hint.Wrap(err, "check %s", key.Endpoint)
		}
		return err
	case d.Status == 404:
		return hint.Wrap(fmt.Errorf("the agent's model is not at %s: %s", target, why), "check the path of %s, and the model's name", key.Endpoint)
	case key.Source == credential.NoKey:
		return hint.Wrap(fmt.Errorf("%s requires a key: %s", target, why), "set %s", key.Variable)
	case key.Source == credential.FromSignIn:
		return hint.Wrap(fmt.Errorf("%s rejected the agent's sign-in on this machine: %s", target, why), "sign in again, or set %s", key.Variable)
	}
	return hint.Wrap(fmt.Errorf("%s rejected the key in %s: %s", target, key.Variable, why), "check %s", key.Variable)
}
