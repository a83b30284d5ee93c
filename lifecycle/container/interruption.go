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

// Interruption returns what has happened to a sandbox since a time.
func (d *Driver) Interruption(ctx context.Context, sb lifecycle.Sandbox, since time.Time) (lifecycle.Interruption, error) {
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return lifecycle.Interruption{What: "was removed"}, nil
	}
	if err != nil {
		return lifecycle.Interruption{}, fmt.Errorf("inspecting sandbox %s: %w", sb.Name, err)
	}
	return interruption(res.Container.State, since), nil
}

func interruption(s *container.State, since time.Time) lifecycle.Interruption {
	switch {
	case s == nil:
		return lifecycle.Interruption{}
	case s.Running:
		began, err := time.Parse(time.RFC3339Nano, s.StartedAt)
		if err == nil && began.After(since) {
			return lifecycle.Interruption{What: "was restarted"}
		}
		return lifecycle.Interruption{}
	default:
		return lifecycle.Interruption{What: exitReason(*s), Asked: s.ExitCode == 0}
	}
}

// exitReason describes how a container has exited.
func exitReason(s container.State) string {
	switch {
	case s.ExitCode == 0: // PID 1 has exited on request
		return "was stopped"
	case s.OOMKilled: // may be an earlier process, so the exit code counts first
		return "ran out of memory"
	case s.ExitCode == exitTimeUp:
		return "exceeded the time limit of a run"
	case s.ExitCode == killed:
		return "was killed"
	default:
		return fmt.Sprintf("ended with exit code %d", s.ExitCode)
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
