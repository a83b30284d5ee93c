package manage

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// checkRemovable returns an error if a sandbox would be kept.
func checkRemovable(ctx context.Context, h host.Host, l host.Located, discard bool) error {
	if l.Sandbox.OtherClient == "" {
		return checkIdle(ctx, l)
	}
	err := l.Backend.Unusable
	if discard {
		var busy bool
		busy, err = h.ContainerDriver(l.Backend.API).Busy(ctx, l.Sandbox)
		if err == nil && busy {
			err = hint.Wrap(errors.New("a command of another client is running in it"), "stop container %s first", l.Sandbox.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("keeping sandbox %s: %w", l.Sandbox.Name, err)
	}
	return nil
}

// removeOther removes the sandbox of another client, if all that is in it may be lost.
func removeOther(ctx context.Context, h host.Host, l host.Located, discard bool) error {
	if err := checkRemovable(ctx, h, l, discard); err != nil {
		return err
	}
	if err := h.ContainerDriver(l.Backend.API).RemoveOther(ctx, l.Sandbox); err != nil {
		return err
	}
	h.Report(fmt.Sprintf("Warning: removed sandbox %s of another client, %s, with unfetched commits", l.Sandbox.Name, l.Sandbox.OtherClient))
	return nil
}
