package run

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// superviseEvery is how often a sandbox is checked while a command runs in it.
const superviseEvery = 2 * time.Second

// repairTimeout bounds a repair: the connection to the engine can break meanwhile.
const repairTimeout = 5 * time.Minute

// supervisor monitors a container, its network and its proxy while a command runs in it: the
// engine does not report when one of them ends or is paused.
type supervisor struct {
	host    host.Host
	ready   Ready
	driver  *container.Driver
	spec    lifecycle.Spec
	ensurer *lifecycle.Ensurer
	run     string // [lifecycle.Sandbox.Run] for which the proxy has the command's keys
	paused  bool   // at the previous check
	failed  string // the latest reported failure
}

// supervise repairs the network and the proxy of a container, and unpauses it, until
// stop is called. It does not restart a container that has ended.
func supervise(ctx context.Context, h host.Host, r Ready, spec lifecycle.Spec, ensurer *lifecycle.Ensurer) (stop func()) {
	driver, ok := r.Driver.(*container.Driver)
	if !ok {
		return func() {}
	}
	quiet := *ensurer
	quiet.Confirm, quiet.Failed = nil, nil // repairs are retried
	t := &supervisor{host: h, ready: r, driver: driver, spec: spec, ensurer: &quiet}
	if !host.IsLoop(r.opts.Command) { // the terminal belongs to the agent
		t.host.Stderr, quiet.Report = io.Discard, func(string) {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(superviseEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.check(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

func (t *supervisor) check(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, answerTimeout)
	sb, err := t.driver.Lookup(asked, t.spec.Name)
	cancel()
	if err != nil {
		return // the engine is unreachable, or the command has just ended
	}
	before := t.paused
	t.paused = sb.State == lifecycle.Paused
	switch {
	case t.paused && before:
		err = t.repair(ctx, sb)
	case sb.State != lifecycle.Running:
		return
	case t.driver.Ready(sb, t.spec):
		if t.run == "" {
			t.run = sb.Run
		}
		if t.run == sb.Run {
			return
		}
		if err = t.pushKeys(ctx, sb); err == nil { // another command has replaced the proxy
			t.run = sb.Run
		}
	default:
		err = t.repair(ctx, sb)
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		t.failed = ""
	case t.failed != err.Error():
		t.failed = err.Error()
		t.host.Report(fmt.Sprintf("Warning: repairing sandbox %s: %v", sb.Name, err))
	}
}

// repair restores a running sandbox, its network and its proxy. It is completed when the
// command ends, because the next command would use a half-configured proxy.
func (t *supervisor) repair(ctx context.Context, sb lifecycle.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairTimeout)
	defer cancel()
	if err := refresh(t.host, t.ready.Kind, &t.spec); err != nil {
		return err
	}
	if t.failed == "" { // before it is restarted
		reportLost(ctx, t.host, t.driver, sb, 0)
	}
	if _, err := t.ensurer.Ensure(ctx, t.spec, false); err != nil {
		return err
	}
	if err := t.pushKeys(ctx, sb); err != nil {
		return err
	}
	t.run = "" // see check
	if sb.State == lifecycle.Running {
		t.host.Report(fmt.Sprintf("Warning: the network of sandbox %s was interrupted: restored it", sb.Name))
		t.ready.notify.Repaired("its network was interrupted")
	}
	return nil
}

// refresh updates the spec of a container with the changes of its network policy.
func refresh(h host.Host, kind string, spec *lifecycle.Spec) (err error) {
	if kind == config.DriverContainer && spec.Egress.Policy.Mode != "" {
		spec.Egress.Amended, err = network.Amended(h, spec.Scope, spec.Egress.Policy)
	}
	return err
}

// pushKeys sends the keys and endpoints of the command to a new proxy.
func (t *supervisor) pushKeys(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, routes := t.ready.routes(); sb.Proxy != "" && len(routes)+len(t.ready.endpoints) > 0 {
		_, err := t.driver.SendRoutes(ctx, sb, routes, t.ready.endpoints)
		return err
	}
	return nil
}
