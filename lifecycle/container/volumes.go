package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// HasVolume reports whether a volume of docker-ralph with that name exists. It returns
// a [lifecycle.ForeignError] for other volumes, and those of other clients.
func (d *Driver) HasVolume(ctx context.Context, name string) (bool, error) {
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("inspecting volume %s: %w", name, err)
	case res.Volume.Labels[engine.LabelCreatedBy] != engine.CreatedBy:
		return false, lifecycle.Foreign(name, "a volume")
	}
	if err := d.checkClient(res.Volume.Labels, "volume", name); err != nil {
		return false, err
	}
	return true, nil
}

// RemoveVolume removes a volume that [Driver.HasVolume] has found. A missing volume is
// not an error.
func (d *Driver) RemoveVolume(ctx context.Context, name string) error {
	_, err := d.API.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing volume %s: %w", name, err)
	}
	return nil
}

// GitVolume is the volume of the git directory of a sandbox's clone.
type GitVolume struct {
	Name, Sandbox string
	OtherClient   string // as in [lifecycle.Sandbox]
}

// GitVolumes lists the git volumes of a repository's existing and removed sandboxes,
// by the path of its main worktree.
func (d *Driver) GitVolumes(ctx context.Context, mainRoot string) ([]GitVolume, error) {
	res, err := d.API.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("label", engine.LabelRole+"="+RoleGit).Add("label", labelRoot+"="+mainRoot)})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	own, err := scopes.ClientID(d.StateDir)
	if err != nil {
		return nil, err
	}
	var all []GitVolume
	for _, v := range res.Items {
		if sandbox := v.Labels[engine.LabelSandbox]; v.Name == gitVolume(sandbox) {
			all = append(all, GitVolume{v.Name, sandbox, otherClient(v.Labels, own)})
		}
	}
	return all, nil
}

// socketsVolume holds the sockets of a sandbox's proxy.
func socketsVolume(sandbox string) string { return "ralph-proxy-" + sandbox }

// socketsMount mounts them; of is the client's ID. The first mount by the proxy, whose image has a directory
// there, makes the proxy's user the owner of an empty volume.
func socketsMount(sandbox, of string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: socketsVolume(sandbox), Target: wire.ProxyDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: readOnly, Labels: engine.PartLabels(sandbox, of, roleSockets)},
	}
}

func (d *Driver) createSockets(ctx context.Context, sandbox, of string) error {
	name := socketsVolume(sandbox)
	made, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: engine.PartLabels(sandbox, of, roleSockets)})
	if err != nil {
		return fmt.Errorf("creating volume %s: %w", name, err)
	}
	if l := made.Volume.Labels; l[engine.LabelCreatedBy] == engine.CreatedBy && l[engine.LabelClient] == of {
		return nil
	}
	// A restarted Docker 20.10 answers without the labels of an existing volume until it is inspected.
	_, err = d.HasVolume(ctx, name)
	return err
}
