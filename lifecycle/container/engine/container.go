package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Inspect inspects the container of exactly that name. The engine also resolves prefixes
// of IDs.
func Inspect(ctx context.Context, api API, name string) (c container.InspectResponse, found bool, err error) {
	res, err := api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	if res.Container.Name != "/"+name {
		return c, false, nil
	}
	if res.Container.Config == nil {
		res.Container.Config = &container.Config{}
	}
	return res.Container, true, nil
}

// RemoveContainer removes a container with its anonymous volumes. It waits for a
// concurrent removal, until which the container's network is in use. A missing container
// is not an error.
func RemoveContainer(ctx context.Context, api API, id string) error {
	_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		err = awaitRemoval(ctx, api, id)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s: %w", id, err)
	}
	return nil
}

// removalTimeout bounds the removal of a container.
const removalTimeout = 30 * time.Second

func awaitRemoval(ctx context.Context, api API, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removalTimeout, fmt.Errorf("container %s was not removed within %s", id, removalTimeout))
	defer cancel()
	wait := api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select {
	case res := <-wait.Result:
		if res.Error != nil {
			return errors.New(res.Error.Message)
		}
		return nil
	case err := <-wait.Error:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// BoundedLog overrides the engine's default log driver, which may not be readable, and
// bounds the size.
func BoundedLog() container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "2"}}
}
