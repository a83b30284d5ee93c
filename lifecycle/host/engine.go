package host

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// Engine identifies a Docker Engine.
type Engine struct {
	// Context is the name of its Docker context; empty if it was selected by its address.
	Context string `json:"context,omitempty"`
	// Host is the address of its endpoint, as in DOCKER_HOST.
	Host string `json:"host"`
	// TLS is for an engine without a context, which has its own.
	TLS EngineTLS `json:"tls,omitzero"`
}

// EngineTLS are the files, and the settings, with which an engine is reached. The zero value is for
// one without TLS.
type EngineTLS struct {
	CA         string `json:"ca,omitempty"`
	Cert       string `json:"cert,omitempty"`
	Key        string `json:"key,omitempty"`
	SkipVerify bool   `json:"skip_verify,omitempty"`
}

// String returns the name of the engine in messages.
func (e Engine) String() string { return cmp.Or(e.Context, e.Host) }

// Same reports whether both have the same endpoint.
func (e Engine) Same(other Engine) bool {
	return strings.TrimSuffix(e.Host, "/") == strings.TrimSuffix(other.Host, "/")
}

// Local reports whether the engine is on this machine.
func (e Engine) Local() bool { return engine.Local(e.Host) }

// selection returns the options of docker that select the engine.
func (e Engine) selection() string {
	if e.Context != "" {
		return "--context " + e.Context
	}
	return "--host " + e.Host
}

// EngineOf connects to the engine of a sandbox: the recorded one, or the selected one if there is no
// record, or no sandbox any more. It is an error if the user has selected another one explicitly.
func (h Host) EngineOf(ctx context.Context, sandbox string, connected func() (API, error)) (API, Engine, error) {
	r, elsewhere := h.Elsewhere(sandbox)
	if !elsewhere {
		api, err := connected()
		return api, h.Selected, err
	}
	api, err := h.ConnectRecorded(ctx, sandbox, r.Engine)
	if err != nil {
		if same, is := h.IsSelected(ctx, sandbox, connected); is {
			return same, h.Selected, nil
		}
		return nil, r.Engine, err
	}
	if h.SelectedBy == "" && container.Known(h.StateDir, sandbox) { // without a lookup, which costs a round trip
		return api, r.Engine, nil
	}
	exists, err := h.has(ctx, api, sandbox)
	switch {
	case err != nil:
		return nil, r.Engine, fmt.Errorf("looking up sandbox %s on engine %s: %w", sandbox, r.Engine, err)
	case exists && h.SelectedBy != "":
		if same, is := h.IsSelected(ctx, sandbox, connected); is {
			return same, h.Selected, nil
		}
		return nil, r.Engine, h.elsewhere(sandbox, r.Engine)
	case exists:
		return api, r.Engine, nil
	}
	if err := h.ForgetEngine(sandbox); err != nil {
		return nil, r.Engine, err
	}
	api, err = connected()
	return api, h.Selected, err
}

// Elsewhere returns the record of a sandbox on another engine than the selected one.
func (h Host) Elsewhere(sandbox string) (r EngineRecord, elsewhere bool) {
	r, found := h.EngineRecord(sandbox)
	return r, found && !r.Engine.Same(h.Selected)
}

// IsSelected reports whether the selected engine has a sandbox that is recorded with another
// address, and connects to it then: an engine can have several. The address is recorded.
func (h Host) IsSelected(ctx context.Context, sandbox string, connected func() (API, error)) (API, bool) {
	id := container.KnownID(h.StateDir, sandbox)
	if id == "" {
		return nil, false
	}
	api, err := connected()
	if err != nil {
		return nil, false
	}
	sb, err := h.ContainerDriver(api).Lookup(ctx, sandbox)
	if err != nil || sb.ID != id {
		return nil, false
	}
	r, _ := h.EngineRecord(sandbox)
	r.Engine = h.Selected
	return api, h.MoveEngine(sandbox, r) == nil
}

// ConnectRecorded connects to the recorded engine of a sandbox.
func (h Host) ConnectRecorded(ctx context.Context, sandbox string, e Engine) (API, error) {
	api, err := h.connectTo(ctx, e)
	if err != nil && ctx.Err() == nil {
		err = hint.Wrap(fmt.Errorf("sandbox %s is unreachable: %w", sandbox, err),
			"if the engine is gone, forget the sandbox with %q", "docker ralph clean --discard-commits "+sandbox)
	}
	return api, err
}

// connectTo connects to another engine than the selected one.
func (h Host) connectTo(ctx context.Context, e Engine) (API, error) {
	if h.ConnectTo == nil {
		return nil, fmt.Errorf("cannot connect to engine %s", e)
	}
	api, err := h.ConnectTo(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to engine %s: %w", e, err)
	}
	return api, nil
}

// has reports whether an engine has a sandbox, or its git volume. Others can have used its name.
func (h Host) has(ctx context.Context, api API, sandbox string) (bool, error) {
	driver := h.ContainerDriver(api)
	sb, err := driver.Lookup(ctx, sandbox)
	if isForeign(err) {
		return false, nil
	}
	if err != nil || sb.State != lifecycle.NotFound {
		return err == nil, err
	}
	has, err := driver.HasVolume(ctx, container.GitVolumeOf(sandbox))
	if isForeign(err) {
		return false, nil
	}
	return has, err
}

// elsewhere is the error for a sandbox on another engine than the one that the user has selected.
func (h Host) elsewhere(sandbox string, e Engine) error {
	remedy := fmt.Sprintf("run %q", "docker "+e.selection()+" ralph ...")
	if !strings.HasPrefix(h.SelectedBy, "-") {
		remedy = "unset " + h.SelectedBy
	}
	return hint.Wrap(fmt.Errorf("sandbox %s is on engine %s", sandbox, e), "%s, or move it with --move", remedy)
}
