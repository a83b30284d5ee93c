package container

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

var _ lifecycle.Adjuster = (*Driver)(nil)

// Adjust implements [lifecycle.Adjuster]. New network rules need a new proxy, which
// [Driver.Prepare] starts.
func (d *Driver) Adjust(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if sb.Resources != spec.Resources {
		if err := d.adjustLimits(ctx, sb, spec.Resources); err != nil {
			return err
		}
	}
	if sb.Rules == spec.Egress.Rules() {
		return nil
	}
	if err := d.RemoveProxy(ctx, sb); err != nil {
		return err
	}
	return d.changeMarker(sb, func(m *marker) { m.Run = "" })
}

func (d *Driver) adjustLimits(ctx context.Context, sb lifecycle.Sandbox, want lifecycle.Resources) error {
	info, err := d.info(ctx)
	if err != nil {
		return err
	}
	resources := engineResources(want, info)
	if _, err := d.API.ContainerUpdate(ctx, sb.ID, client.ContainerUpdateOptions{Resources: &resources}); err != nil {
		return err
	}
	now := limits{want, resourcesOf(&container.HostConfig{Resources: resources})}
	return d.changeMarker(sb, func(m *marker) { m.Limits = now })
}

// limits are those of a container: an engine with less than was requested has its own.
type limits struct {
	Requested lifecycle.Resources `json:"requested"`
	Effective lifecycle.Resources `json:"effective"`
}

func (l limits) String() string {
	b, _ := json.Marshal(l) // numbers cannot fail
	return string(b)
}

// requestedLimits returns the limits that were requested for a container: those of its creation
// or, after [Driver.Adjust], of its marker.
func (d *Driver) requestedLimits(c container.InspectResponse) lifecycle.Resources {
	has := resourcesOf(c.HostConfig)
	var created limits
	if json.Unmarshal([]byte(c.Config.Labels[labelLimits]), &created) == nil && created.Effective == has {
		return created.Requested
	}
	if m, ok := d.lastMarker(strings.TrimPrefix(c.Name, "/")); ok && m.ID == c.ID && m.Limits.Effective == has {
		return m.Limits.Requested
	}
	return has
}

// resourcesOf returns the limits of a container.
func resourcesOf(host *container.HostConfig) lifecycle.Resources {
	if host == nil {
		return lifecycle.Resources{}
	}
	r := lifecycle.Resources{Memory: host.Memory, NanoCPUs: host.NanoCPUs}
	if host.PidsLimit != nil {
		r.Pids = *host.PidsLimit
	}
	return r
}

// engineResources are limits in the form of the engine, which must not exceed its capacity.
func engineResources(r lifecycle.Resources, info system.Info) container.Resources {
	memory := clamp(r.Memory, info.MemTotal)
	return container.Resources{
		Memory:     memory,
		MemorySwap: memory,
		NanoCPUs:   clamp(r.NanoCPUs, int64(info.NCPU)*1e9),
		PidsLimit:  &r.Pids,
	}
}

// clamp limits a value to the capacity of the engine; 0 means unknown.
func clamp(wish, has int64) int64 {
	if has > 0 && wish > has {
		return has
	}
	return wish
}
