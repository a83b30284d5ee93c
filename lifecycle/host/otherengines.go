package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// listTimeout is how long an engine may take to connect and list its sandboxes, or to describe one.
const listTimeout = 10 * time.Second

// errNoAnswer is the cause of a context that ends after listTimeout.
var errNoAnswer = errors.New("the engine does not answer")

// late replaces the error of a call whose time is over.
func late(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// within connects to an engine as long as ctx lasts.
func within(ctx context.Context, connect func() (API, error)) (API, error) {
	type connection struct {
		api API
		err error
	}
	done := make(chan connection, 1)
	go func() {
		api, err := connect()
		done <- connection{api, err}
	}()
	select {
	case c := <-done:
		return c.api, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// otherEngines returns the recorded engines besides the selected one.
func (h Host) otherEngines(records map[string]EngineRecord) []Engine {
	var engines []Engine
	for _, r := range records {
		if !r.Engine.Same(h.Selected) && !slices.ContainsFunc(engines, r.Engine.Same) {
			engines = append(engines, r.Engine)
		}
	}
	slices.SortFunc(engines, func(a, b Engine) int { return strings.Compare(a.Host, b.Host) })
	return engines
}

// recorded lists the sandboxes of another engine. If it cannot be reached, the recorded ones have
// the state [lifecycle.Unknown].
func (h Host) recorded(ctx context.Context, e Engine, records map[string]EngineRecord) []Located {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errNoAnswer)
	defer cancel()
	var found []Located
	api, err := h.connectTo(ctx, e)
	if err == nil {
		if found, err = list(ctx, h.onEngine(api, e)); err == nil {
			return found
		}
		err = fmt.Errorf("cannot connect to engine %s: %w", e, late(ctx, err))
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		h.Warn(err)
	}
	return h.unreachable(e, records)
}

// unreachable returns the recorded sandboxes of an engine that cannot be reached, which was reported.
func (h Host) unreachable(e Engine, records map[string]EngineRecord) (found []Located) {
	for name, r := range records {
		if r.Engine.Same(e) {
			found = append(found, h.recordedAt(name, r))
		}
	}
	return found
}

// recordedAt describes a sandbox whose engine cannot be reached.
func (h Host) recordedAt(name string, r EngineRecord) Located {
	err := fmt.Errorf("cannot connect to engine %s", r.Engine)
	sb := r.sandbox(name, err.Error())
	sb.ID = container.KnownID(h.StateDir, name)
	return Located{sb, Backend{Kind: config.DriverContainer, Driver: unusable{r.Engine, err}, Engine: r.Engine, Unusable: err}}
}

// Recorded describes the sandbox of that name from its record, for when its engine cannot be reached. Without a
// container, it has the state [lifecycle.NotFound].
func (h Host) Recorded(name string) Located {
	r, found := h.EngineRecord(name)
	if !found || !container.Known(h.StateDir, name) {
		return Located{Sandbox: lifecycle.Sandbox{Name: name, State: lifecycle.NotFound}}
	}
	return h.recordedAt(name, r)
}

// LocateOrRecorded locates the sandbox of that name to describe it: whatever engine is selected, and from its record
// if its engine does not answer in time, with a warning.
func (h Host) LocateOrRecorded(ctx context.Context, name string) (Located, error) {
	asked, cancel := context.WithTimeoutCause(ctx, listTimeout, errNoAnswer)
	defer cancel()
	connect := h.Engine
	h.SelectedBy, h.Engine = "", func() (API, error) { return within(asked, connect) }
	l, err := h.Locate(asked, name)
	if err != nil && errors.Is(context.Cause(asked), errNoAnswer) {
		err = fmt.Errorf("inspecting sandbox %s: %w", name, errNoAnswer)
	}
	if engine.ConnectionLost(err) || errors.Is(err, errNoAnswer) {
		h.Warn(err)
		return h.Recorded(name), nil
	}
	return l, err
}

// AllRecorded returns the sandboxes of which there is a record, by name. They may have been removed by hand.
func (h Host) AllRecorded() (all []lifecycle.Sandbox, err error) {
	names, err := scopes.Names(h.StateDir)
	for _, name := range names {
		if l := h.Recorded(name); l.Sandbox.State != lifecycle.NotFound {
			all = append(all, l.Sandbox)
		}
		for _, kind := range microvm.Drivers() {
			if sb, known := microvm.Remembered(h.StateDir, kind, name); known && sb.Name != "" {
				all = append(all, sb)
			}
		}
	}
	return all, err
}

// withoutDuplicates removes sandboxes that were found under another address of their engine: IDs of
// containers are unique. The first one that can be reached stays. They are ordered by name.
func withoutDuplicates(all []Located) []Located {
	slices.SortStableFunc(all, func(a, b Located) int {
		reachable := 0
		if (a.Backend.Unusable == nil) != (b.Backend.Unusable == nil) {
			reachable = 1
			if a.Backend.Unusable == nil {
				reachable = -1
			}
		}
		return cmp.Or(strings.Compare(a.Sandbox.Name, b.Sandbox.Name), strings.Compare(a.Sandbox.ID, b.Sandbox.ID), reachable)
	})
	return slices.CompactFunc(all, func(a, b Located) bool {
		return a.Sandbox.Name == b.Sandbox.Name && a.Sandbox.ID == b.Sandbox.ID && a.Sandbox.ID != "" && a.Backend.Kind == b.Backend.Kind
	})
}

// usesSelected reports whether a sandbox can be on the selected engine.
func (h Host) usesSelected(records map[string]EngineRecord) bool {
	known, err := container.AllKnown(h.StateDir)
	return err != nil || len(known) > 0 && h.SelectedBy != "" || slices.ContainsFunc(known, func(name string) bool {
		r, found := records[name]
		return !found || r.Engine.Same(h.Selected)
	})
}

// EnginesOf returns the engines of sandboxes that can be used, the selected one first.
func (h Host) EnginesOf(sandboxes []Located, connected func() (API, error)) ([]Backend, error) {
	api, err := connected()
	if err != nil {
		return nil, err
	}
	engines := []Backend{h.onEngine(api, h.Selected)}
	for _, l := range sandboxes {
		same := func(b Backend) bool { return b.Engine.Same(l.Backend.Engine) }
		if l.Backend.Kind == config.DriverContainer && l.Backend.Unusable == nil && !slices.ContainsFunc(engines, same) {
			engines = append(engines, l.Backend)
		}
	}
	return engines, nil
}

// Sizes returns the disk usage of containers by their IDs. The microVM programs do not report any.
func Sizes(ctx context.Context, sandboxes []Located) (map[string]int64, error) {
	of := map[*container.Driver][]lifecycle.Sandbox{}
	for _, l := range sandboxes {
		if driver, ok := l.Backend.Driver.(*container.Driver); ok {
			of[driver] = append(of[driver], l.Sandbox)
		}
	}
	sizes := map[string]int64{}
	var errs []error
	for driver, list := range of {
		some, err := driver.Sizes(ctx, list)
		for id, size := range some {
			sizes[id] = size
		}
		errs = append(errs, err)
	}
	return sizes, errors.Join(errs...)
}

func isForeign(err error) bool {
	_, foreign := errors.AsType[*lifecycle.ForeignError](err)
	return foreign
}

// unusable is the driver for sandboxes that cannot be used, for the reason err.
type unusable struct {
	engine Engine
	err    error
}

var _ lifecycle.Driver = unusable{}

// Name implements [lifecycle.Driver].
func (u unusable) Name() string { return config.DriverContainer }

// Lookup implements [lifecycle.Driver].
func (u unusable) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{}, u.err
}

// Create implements [lifecycle.Driver].
func (u unusable) Create(context.Context, lifecycle.Spec) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{}, u.err
}

// Start implements [lifecycle.Driver].
func (u unusable) Start(context.Context, lifecycle.Sandbox) error { return u.err }

// Ready implements [lifecycle.Driver].
func (u unusable) Ready(lifecycle.Sandbox, lifecycle.Spec) bool { return false }

// Prepare implements [lifecycle.Driver].
func (u unusable) Prepare(context.Context, lifecycle.Sandbox, lifecycle.Spec) error { return u.err }

// Busy implements [lifecycle.Driver].
func (u unusable) Busy(context.Context, lifecycle.Sandbox) (bool, error) { return false, u.err }

// Dispatches implements [lifecycle.Driver].
func (u unusable) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	return nil, u.err
}

// Exec implements [lifecycle.Driver].
func (u unusable) Exec(context.Context, lifecycle.Sandbox, lifecycle.Process) (int, error) {
	return 0, u.err
}

// Stop implements [lifecycle.Driver].
func (u unusable) Stop(context.Context, lifecycle.Sandbox) error { return u.err }

// Remove implements [lifecycle.Driver].
func (u unusable) Remove(context.Context, lifecycle.Sandbox) error { return u.err }

// List implements [lifecycle.Driver].
func (u unusable) List(context.Context) ([]lifecycle.Sandbox, error) { return nil, u.err }

// ListCommand implements [lifecycle.Driver].
func (u unusable) ListCommand() string { return "docker " + u.engine.selection() + " ps -a" }
