package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// resource is a proxy, a helper, a network or a volume of sockets. Nothing of a user's is
// in them.
type resource struct {
	sandbox, name string
	client        string // as in [lifecycle.Sandbox]
	other         string // likewise OtherClient
	kind          ResourceKind
	created       time.Time
	remove        func(ctx context.Context) error
}

// resources lists those of a sandbox, or of all sandboxes.
func (d *Driver) resources(ctx context.Context, sandbox string) ([]resource, error) {
	label := engine.LabelSandbox
	if sandbox != "" {
		label += "=" + sandbox
	}
	ours := make(client.Filters).Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("label", label).Add("label", engine.LabelRole)
	containers, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("listing the proxies of sandboxes: %w", err)
	}
	networks, err := d.API.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("listing the networks of sandboxes: %w", err)
	}
	volumes, err := d.API.VolumeList(ctx, client.VolumeListOptions{Filters: ours.Clone().Add("label", engine.LabelRole+"="+roleSockets)})
	if err != nil {
		return nil, fmt.Errorf("listing the volumes of sandboxes: %w", err)
	}
	var all []resource
	if sandbox == "" {
		if all, err = d.unfinishedImages(ctx); err != nil {
			return nil, err
		}
	}
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return nil, err
	}
	ofClient := func(r resource, l map[string]string) resource {
		r.sandbox, r.client, r.other = l[engine.LabelSandbox], l[engine.LabelClient], otherClient(l, own)
		return r
	}
	for _, c := range containers.Items {
		all = append(all, ofClient(resource{
			kind: KindProxy, name: strings.TrimPrefix(strings.Join(c.Names, " "), "/"), created: time.Unix(c.Created, 0),
			remove: func(ctx context.Context) error { return engine.RemoveContainer(ctx, d.API, c.ID) },
		}, c.Labels))
	}
	for _, n := range networks.Items {
		all = append(all, ofClient(resource{
			kind: KindNetwork, name: n.Name, created: n.Created,
			remove: func(ctx context.Context) error { return d.removeNetwork(ctx, n.ID) },
		}, n.Labels))
	}
	for _, v := range volumes.Items {
		created, err := time.Parse(time.RFC3339, v.CreatedAt)
		if err != nil {
			return nil, fmt.Errorf("listing the volumes of sandboxes: %w", err)
		}
		all = append(all, ofClient(resource{
			kind: KindVolume, name: v.Name, created: created,
			remove: func(ctx context.Context) error {
				if err := d.RemoveVolume(ctx, v.Name); !errdefs.IsConflict(err) { // a new sandbox of that name uses it
					return err
				}
				return nil
			},
		}, v.Labels))
	}
	return all, nil
}

// unfinishedImages lists the containers in which a killed command was adding a user to an image. They belong to no
// sandbox.
func (d *Driver) unfinishedImages(ctx context.Context) (all []resource, err error) {
	adding := make(client.Filters).Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("label", userimage.LabelOrigin)
	containers, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: adding})
	if err != nil {
		return nil, fmt.Errorf("listing containers of unfinished images: %w", err)
	}
	for _, c := range containers.Items {
		if c.Labels[userimage.LabelOrigin] != c.ImageID {
			continue // of the finished image
		}
		all = append(all, resource{
			kind: KindProxy, name: strings.TrimPrefix(strings.Join(c.Names, " "), "/"), created: time.Unix(c.Created, 0),
			remove: func(ctx context.Context) error { return engine.RemoveContainer(ctx, d.API, c.ID) },
		})
	}
	return all, nil
}

// creation returns when a container was created.
func creation(c container.InspectResponse) time.Time {
	created, _ := time.Parse(time.RFC3339Nano, c.Created)
	return created
}

// removeResources removes those of a removed sandbox.
func (d *Driver) removeResources(ctx context.Context, sb lifecycle.Sandbox) error {
	all, err := d.resources(ctx, sb.Name)
	errs := []error{err}
	for _, r := range all {
		if r.other == "" || r.client == sb.Client {
			errs = append(errs, r.remove(ctx))
		}
	}
	return errors.Join(errs...)
}

// RemoveOther removes the sandbox of another client, with unfetched commits.
func (d *Driver) RemoveOther(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := engine.RemoveContainer(ctx, d.API, sb.ID); err != nil {
		return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
	}
	errs := []error{d.removeResources(ctx, sb)}
	for _, name := range []string{gitVolume(sb.Name), cloneVolume(sb.Name)} {
		errs = append(errs, d.RemoveVolume(ctx, name))
	}
	return errors.Join(errs...)
}

// removeStale removes the resources of an earlier sandbox with the name of a new one, which
// has a network and the volume of sockets.
func (d *Driver) removeStale(ctx context.Context, sandbox, network string, created time.Time) error {
	all, err := d.resources(ctx, sandbox)
	errs := []error{err}
	for _, r := range all {
		if r.other != "" || r.name == network || r.name == socketsVolume(sandbox) {
			continue
		}
		if r.kind != KindNetwork { // lists have seconds only
			c, found, err := engine.Inspect(ctx, d.API, r.name)
			if errs = append(errs, err); !found || creation(c).After(created) {
				continue // another command has started the new sandbox
			}
		}
		// A network in use belongs to another command that tries to create the sandbox. It
		// removes its network when that fails.
		if err := r.remove(ctx); r.kind != KindNetwork || !isInUse(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// SweepOrphans removes the resources of this client's sandboxes that do not exist, and names them. What is
// younger than grace may belong to a sandbox that is being created.
func (d *Driver) SweepOrphans(ctx context.Context, grace time.Duration) (removed []string, err error) {
	sandboxes, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	all, err := d.resources(ctx, "")
	errs := []error{err}
	for _, r := range orphans(all, sandboxes, grace) {
		errs = append(errs, r.remove(ctx))
		removed = append(removed, r.name)
	}
	return removed, errors.Join(errs...)
}

// orphans returns the resources of this client's sandboxes that do not exist.
func orphans(all []resource, sandboxes []lifecycle.Sandbox, grace time.Duration) []resource {
	before, inUse := time.Now().Add(-grace), map[string]bool{}
	for _, sb := range sandboxes {
		inUse[sb.Name] = true
	}
	for _, r := range all {
		inUse[r.sandbox] = inUse[r.sandbox] || r.created.After(before)
	}
	return slices.DeleteFunc(slices.Clone(all), func(r resource) bool { return r.other != "" || inUse[r.sandbox] })
}
