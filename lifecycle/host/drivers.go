package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Backend is a driver with its engine.
type Backend struct {
	Kind   string // the driver's name, as in sandbox.driver
	Driver lifecycle.Driver
	API    API // nil without an engine
	// Engine is the engine of a container.
	Engine Engine
	// Unusable is why the sandbox cannot be used: its engine cannot be reached, or it is of another
	// client. All methods of the driver return it then.
	Unusable error
}

// onEngine returns the backend for containers on an engine.
func (h Host) onEngine(api API, e Engine) Backend {
	return Backend{Kind: config.DriverContainer, Driver: h.ContainerDriver(api), API: api, Engine: e}
}

// ContainerDriver is the driver for containers on an engine.
func (h Host) ContainerDriver(api API) *container.Driver {
	return &container.Driver{API: api, Host: api.DaemonHost(), StateDir: h.StateDir, Report: h.Report}
}

// CreatedBy returns the driver that created the sandbox of that name; empty if that is not
// recorded.
func (h Host) CreatedBy(name string) string {
	for _, kind := range microvm.Drivers() {
		if _, known := microvm.Remembered(h.StateDir, kind, name); known {
			return kind
		}
	}
	if container.Known(h.StateDir, name) {
		return config.DriverContainer
	}
	return ""
}

// LeftOut is a driver that is not usable here.
type LeftOut struct {
	Driver string
	Err    error
}

// Installed reports whether the driver's program is there.
func (l LeftOut) Installed() bool { return !errors.Is(l.Err, lifecycle.ErrNotInstalled) }

// Reasons returns why drivers are not usable, in short.
func Reasons(drivers []LeftOut) string {
	reasons := make([]string, len(drivers))
	for i, l := range drivers {
		reasons[i], _, _ = strings.Cut(l.Err.Error(), ": ")
		if !l.Installed() {
			reasons[i] = "no " + strings.ReplaceAll(l.Driver, "-", " ")
		}
	}
	return strings.Join(reasons, "; ")
}

// Probe returns the first usable driver, the strongest isolation first, and the ones before
// it. On a remote engine, it is container. Whether its engine runs is not known.
func (h Host) Probe(ctx context.Context) (kind string, before []LeftOut) {
	if !h.Selected.Local() {
		return config.DriverContainer, nil
	}
	for _, candidate := range microvm.Drivers() {
		err := h.usable(ctx, candidate)
		if err == nil {
			return candidate, before
		}
		before = append(before, LeftOut{candidate, err})
	}
	return config.DriverContainer, before
}

// usable returns an error if a microVM driver cannot create sandboxes here.
func (h Host) usable(ctx context.Context, kind string) error {
	if kind == config.DriverDockerSandbox && h.HasPlugin != nil && !h.HasPlugin("sandbox") {
		return lifecycle.ErrNotInstalled
	}
	return h.MicroVM(kind, nil).Usable(ctx)
}

// MicroVM returns the driver of that name. engine has the images for sbx.
func (h Host) MicroVM(kind string, engine microvm.Engine) *microvm.Driver {
	return microvm.New(kind, microvm.Options{
		StateDir: h.StateDir, Report: h.Report,
		Engine: engine, KVM: cmp.Or(h.Getenv("RALPH_KVM"), "/dev/kvm"),
		Docker: h.Docker, Globals: h.DockerGlobals,
	})
}

// LookupSandbox looks up the sandbox of that name with the driver that created it.
func (h Host) LookupSandbox(ctx context.Context, name string) (lifecycle.Driver, lifecycle.Sandbox, error) {
	l, err := h.Locate(ctx, name)
	return l.Backend.Driver, l.Sandbox, err
}

// Locate looks up the sandbox of that name with the driver that created it, on its engine. One of another
// client cannot be used.
func (h Host) Locate(ctx context.Context, name string) (Located, error) {
	var at Backend
	if kind := h.CreatedBy(name); slices.Contains(microvm.Drivers(), kind) {
		at = Backend{Kind: kind, Driver: h.MicroVM(kind, nil)}
	} else {
		api, e, err := h.EngineOf(ctx, name, h.Engine)
		if err != nil {
			return Located{}, err
		}
		at = h.onEngine(api, e)
	}
	sb, err := at.Driver.Lookup(ctx, name)
	if other, is := lifecycle.SandboxOfOtherClient(err); is {
		return locate(other, at), nil
	}
	if err != nil {
		return Located{}, err
	}
	return Located{sb, at}, nil
}
