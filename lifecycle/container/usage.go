package container

import (
	"context"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/programs"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// ResourceKind is the kind of a [Resource].
type ResourceKind string

// The kinds of resources.
const (
	KindProxy   ResourceKind = "proxy"
	KindNetwork ResourceKind = "network"
	KindVolume  ResourceKind = "volume"
)

// Resource is something on the engine that docker-ralph created beside sandboxes and images.
type Resource struct {
	Kind    ResourceKind
	Name    string
	Role    string // of a volume: "cache", "git", "sockets", "programs"
	Sandbox string // empty for what sandboxes share
	Repo    string // of a volume: the repository's slug
	Root    string // of a volume: the repository's directory
	// Worktree is the directory of the worktree of a clone.
	Worktree string
	Size     *int64 // bytes; nil if unknown
	InUse    bool
	// OtherClient is as in [lifecycle.Sandbox].
	OtherClient string
	// Orphan says that [Driver.SweepOrphans] would remove it.
	Orphan bool
}

// Resources lists the proxies, networks and volumes of these sandboxes, of sandboxes that do not
// exist, and those that sandboxes share.
func (d *Driver) Resources(ctx context.Context, sandboxes []lifecycle.Sandbox, grace time.Duration) ([]Resource, error) {
	all, err := d.resources(ctx, "")
	if err != nil {
		return nil, err
	}
	orphaned := map[string]bool{}
	for _, r := range orphans(all, sandboxes, grace) {
		orphaned[r.name] = true
	}
	var found []Resource
	for _, r := range all {
		if r.kind != KindVolume {
			inUse := slices.ContainsFunc(sandboxes, func(sb lifecycle.Sandbox) bool { return sb.Name == r.sandbox })
			found = append(found, Resource{Kind: r.kind, Name: r.name, Sandbox: r.sandbox, InUse: inUse, OtherClient: r.other, Orphan: orphaned[r.name]})
		}
	}
	volumes, err := engine.VolumeUsage(ctx, d.API)
	if err != nil {
		return nil, err
	}
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		role := v.Labels[engine.LabelRole]
		if v.Name == programs.Volume {
			role = "programs"
		}
		if v.Labels[engine.LabelCreatedBy] != engine.CreatedBy || role == "" {
			continue // a volume over a directory is removed with its container
		}
		p := Resource{
			Kind: KindVolume, Name: v.Name, Role: role, Sandbox: v.Labels[engine.LabelSandbox],
			Repo: v.Labels[labelRepo], Root: v.Labels[labelRoot], Worktree: v.Labels[labelWorktree], Orphan: orphaned[v.Name],
			OtherClient: otherClient(v.Labels, own),
		}
		if v.UsageData != nil {
			p.InUse = v.UsageData.RefCount > 0
			if v.UsageData.Size >= 0 {
				p.Size = &v.UsageData.Size
			}
		}
		found = append(found, p)
	}
	return found, nil
}

// Programs lists the images of ralph and ralph-egress of all versions.
func (d *Driver) Programs(ctx context.Context) ([]programs.Image, error) {
	installer, err := d.installer(ctx)
	if err != nil {
		return nil, err
	}
	return installer.Images(ctx)
}

// RemoveProgram removes one of [Driver.Programs].
func (d *Driver) RemoveProgram(ctx context.Context, tag string) error {
	installer, err := d.installer(ctx)
	if err != nil {
		return err
	}
	return installer.Remove(ctx, tag)
}
