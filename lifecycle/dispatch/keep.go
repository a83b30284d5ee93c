package dispatch

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
)

// Keep keeps the sandbox of that name alive for a dispatch and those that come
// after it, until none runs any more. kind is the driver.
func Keep(ctx context.Context, h Host, kind, name, id string) error {
	switch kind {
	case config.DriverSbx:
		return h.microVM(h.sbx(nil)).Keep(ctx, name, id)
	case config.DriverDockerSandbox:
		return h.microVM(h.dockerSandbox()).Keep(ctx, name, id)
	default:
		return fmt.Errorf("the driver %q needs nobody to keep its sandboxes alive", kind)
	}
}
