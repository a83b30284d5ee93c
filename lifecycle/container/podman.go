package container

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/hint"
)

// checkDocker rejects Podman, whose Docker API takes a seccomp profile for a file name,
// among other differences. The version is only read from engines without containerd.
func (d *Driver) checkDocker(ctx context.Context, info system.Info) error {
	for runtime := range info.Runtimes {
		if strings.HasPrefix(runtime, "io.containerd.") {
			return nil
		}
	}
	version, err := d.API.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return fmt.Errorf("reading the engine's version: %w", err)
	}
	for _, part := range version.Components {
		if part.Name == "Podman Engine" {
			return hint.Wrap(fmt.Errorf("the engine at %s is Podman %s, which is not supported", d.Host, part.Version), `select a Docker Engine with "docker context use" or "docker --context NAME ralph ..."`)
		}
	}
	return nil
}
