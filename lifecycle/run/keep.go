package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Keep keeps the sandbox of that name alive for a dispatch and those that come
// after it, until none runs any more. kind is the driver.
func Keep(ctx context.Context, h host.Host, kind, name, id string) error {
	if !slices.Contains(microvm.Drivers(), kind) {
		return fmt.Errorf("the driver %q keeps its sandboxes alive by itself", kind)
	}
	return h.MicroVM(kind, nil).Keep(ctx, name, id)
}
