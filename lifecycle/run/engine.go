package run

import (
	"context"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// recordEngine records the engine of a container before it is created or used. The first record of
// a sandbox is not written without a response: it would bind the sandbox to an engine that never had it.
func recordEngine(ctx context.Context, h host.Host, r Ready) error {
	if r.Kind != config.DriverContainer {
		return nil
	}
	if _, found := h.EngineRecord(r.spec.Name); !found && ping(ctx, r.API) != nil {
		return nil // which [lifecycle.Ensurer.Ensure] reports
	}
	return h.SaveEngine(r.spec.Name, host.NewEngineRecord(r.Engine, r.spec))
}
