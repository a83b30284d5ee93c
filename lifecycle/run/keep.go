package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Keep keeps the sandbox of a microVM driver alive until no command runs in it.
func Keep(ctx context.Context, h host.Host, kind, name, id string) error {
	if !slices.Contains(microvm.Drivers(), kind) {
		return fmt.Errorf("the driver %q keeps its sandboxes alive by itself", kind)
	}
	return h.MicroVM(kind, nil).Keep(ctx, name, id)
}
