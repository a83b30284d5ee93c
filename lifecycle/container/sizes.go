package container

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// sharedPrefix begins the names of volumes that a repository's sandboxes share.
const sharedPrefix = "ralph-cache-"

// Sizes returns what each sandbox takes for itself, in bytes, by its name: what it
// has written, and its volumes, but none that others have too. The engine looks
// at every file for that.
func (d *Driver) Sizes(ctx context.Context) (map[string]int64, error) {
	res, err := d.API.ContainerList(ctx, client.ContainerListOptions{
		All: true, Size: true,
		Filters: make(client.Filters).Add("label", labelCreatedBy+"="+createdBy).Add("label", labelSandbox),
	})
	if err != nil {
		return nil, fmt.Errorf("asking what sandboxes take: %w", err)
	}
	usage, err := d.API.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
	if err != nil {
		return nil, fmt.Errorf("asking what volumes take: %w", err)
	}
	volumes := map[string]int64{}
	for _, v := range usage.Volumes.Items {
		if v.UsageData != nil && v.UsageData.Size > 0 && !strings.HasPrefix(v.Name, sharedPrefix) {
			volumes[v.Name] = v.UsageData.Size
		}
	}
	sizes := map[string]int64{}
	for _, c := range res.Items {
		for _, name := range c.Names {
			if !isSandbox(c.Labels, name) {
				continue
			}
			size, counted := c.SizeRw, map[string]bool{}
			for _, m := range c.Mounts {
				if m.Type == mount.TypeVolume && m.RW && !counted[m.Name] {
					counted[m.Name] = true
					size += volumes[m.Name]
				}
			}
			sizes[c.Labels[labelSandbox]] = size
		}
	}
	return sizes, nil
}
