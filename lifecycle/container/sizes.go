package container

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// sharedPrefix begins the names of volumes that a repository's sandboxes share.
const sharedPrefix = "ralph-cache-"

// measuredAtOnce bounds how many sandboxes the engine measures at the same time:
// it reads their folders.
const measuredAtOnce = 4

// Sizes returns what sandboxes take for themselves, in bytes, by their IDs: what
// each has written, and its volumes, but none that others have too. One that is
// removed meanwhile is left out. Each is inspected, because the engine does not
// list sizes at all while any container of anybody is being removed.
func (d *Driver) Sizes(ctx context.Context, sandboxes []lifecycle.Sandbox) (map[string]int64, error) {
	volumes, err := d.volumeSizes(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	sizes := map[string]int64{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(measuredAtOnce)
	for _, sb := range sandboxes {
		group.Go(func() error {
			size, found, err := d.size(ctx, sb.ID, volumes)
			if err == nil && found {
				mu.Lock()
				defer mu.Unlock()
				sizes[sb.ID] = size
			}
			return err
		})
	}
	return sizes, group.Wait()
}

func (d *Driver) volumeSizes(ctx context.Context) (map[string]int64, error) {
	volumes, err := engine.VolumeUsage(ctx, d.API)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, v := range volumes {
		if v.UsageData != nil && v.UsageData.Size > 0 && !strings.HasPrefix(v.Name, sharedPrefix) {
			sizes[v.Name] = v.UsageData.Size
		}
	}
	return sizes, nil
}

func (d *Driver) size(ctx context.Context, id string, volumes map[string]int64) (size int64, found bool, err error) {
	res, err := d.API.ContainerInspect(ctx, id, client.ContainerInspectOptions{Size: true})
	if errdefs.IsNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading the size of a sandbox: %w", err)
	}
	if res.Container.SizeRw != nil {
		size = *res.Container.SizeRw
	}
	counted := map[string]bool{}
	for _, m := range res.Container.Mounts {
		if m.Type == mount.TypeVolume && m.RW && !counted[m.Name] {
			counted[m.Name] = true
			size += volumes[m.Name]
		}
	}
	return size, true, nil
}
