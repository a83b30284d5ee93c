package container

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Mishap returns what has happened to a sandbox since a time.
func (d *Driver) Mishap(ctx context.Context, sb lifecycle.Sandbox, since time.Time) (lifecycle.Mishap, error) {
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return lifecycle.Mishap{What: "was removed"}, nil
	}
	if err != nil {
		return lifecycle.Mishap{}, fmt.Errorf("inspecting the sandbox %s: %w", sb.Name, err)
	}
	return mishap(res.Container.State, since), nil
}

func mishap(s *container.State, since time.Time) lifecycle.Mishap {
	switch {
	case s == nil:
		return lifecycle.Mishap{}
	case s.Running:
		began, err := time.Parse(time.RFC3339Nano, s.StartedAt)
		if err == nil && began.After(since) {
			return lifecycle.Mishap{What: "was restarted"}
		}
		return lifecycle.Mishap{}
	case s.ExitCode == 0: // PID 1 has exited on request
		return lifecycle.Mishap{What: "was stopped", Asked: true}
	case s.OOMKilled: // may be an earlier process, so the exit code counts first
		return lifecycle.Mishap{What: "ran out of memory"}
	case s.ExitCode == killed:
		return lifecycle.Mishap{What: "was killed"}
	default:
		return lifecycle.Mishap{What: fmt.Sprintf("ended with exit code %d", s.ExitCode)}
	}
}

// unpause unpauses a container.
func (d *Driver) unpause(ctx context.Context, id string) error {
	_, err := d.API.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	if err != nil && !strings.Contains(err.Error(), "is not paused") { // unpaused in the meantime
		return fmt.Errorf("unpausing %s: %w", id, err)
	}
	return nil
}
