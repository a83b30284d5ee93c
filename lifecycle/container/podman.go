package container

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// checkDocker refuses Podman, which answers as a Docker Engine does, but takes
// the filter of system calls for a file's name, among other things. Only an
// engine without containerd is asked for more.
func (d *Driver) checkDocker(ctx context.Context, info system.Info) error {
	for runtime := range info.Runtimes {
		if strings.HasPrefix(runtime, "io.containerd.") {
			return nil
		}
	}
	version, err := d.API.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return fmt.Errorf("asking the engine for its version: %w", err)
	}
	for _, part := range version.Components {
		if part.Name == "Podman Engine" {
			return fmt.Errorf("the engine at %s is Podman %s, where sandboxes cannot be made: choose a Docker Engine with \"docker context use\" or \"docker --context NAME ralph …\"", d.Host, part.Version)
		}
	}
	return nil
}
