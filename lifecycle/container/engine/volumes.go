package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

const (
	// usageTimeout is how long [VolumeUsage] waits for other clients.
	usageTimeout = time.Minute
	usagePoll    = 200 * time.Millisecond
)

// VolumeUsage returns all volumes with their sizes. Docker 20.10 refuses it while it measures for
// another client (https://github.com/moby/moby/pull/42715), whose end is waited for.
func VolumeUsage(ctx context.Context, api API) ([]volume.Volume, error) {
	for began := time.Now(); ; {
		usage, err := api.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
		if err == nil {
			return usage.Volumes.Items, nil
		}
		busy := strings.Contains(err.Error(), "disk usage operation is already running")
		if !busy || time.Since(began) > usageTimeout {
			return nil, fmt.Errorf("reading the sizes of volumes: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(usagePoll):
		}
	}
}
