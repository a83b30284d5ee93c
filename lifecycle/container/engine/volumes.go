package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

const (
	// usageTimeout is how long [VolumeUsage] waits for other clients.
	usageTimeout  = time.Minute
	usagePoll     = 200 * time.Millisecond
	usageFailures = 5
)

// VolumeUsage returns all volumes with their sizes, by name. Docker 20.10 refuses it while it measures for
// another client (https://github.com/moby/moby/pull/42715), whose end is waited for. Another failure
// of the engine may pass, too, as when something is removed while it is measured: it is asked again.
func VolumeUsage(ctx context.Context, api API) ([]volume.Volume, error) {
	failures := 0
	for began := time.Now(); ; {
		usage, err := api.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
		if err == nil {
			slices.SortFunc(usage.Volumes.Items, func(a, b volume.Volume) int { return strings.Compare(a.Name, b.Name) })
			return usage.Volumes.Items, nil
		}
		if !strings.Contains(err.Error(), "disk usage operation is already running") {
			failures++
		}
		if failures == usageFailures || !errdefs.IsInternal(err) || time.Since(began) > usageTimeout {
			return nil, fmt.Errorf("reading the sizes of volumes: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(usagePoll):
		}
	}
}
