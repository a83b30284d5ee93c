package container

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// HasVolume reports whether there is a volume of ours with that name. Somebody
// else's is a [lifecycle.ForeignError].
func (d *Driver) HasVolume(ctx context.Context, name string) (bool, error) {
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at the volume %s: %w", name, err)
	case res.Volume.Labels[labelCreatedBy] != createdBy:
		return false, &lifecycle.ForeignError{Name: name, What: "a volume"}
	}
	return true, nil
}

// RemoveVolume removes a volume that [Driver.HasVolume] has found. One that is
// gone is no error, one that is in use is.
func (d *Driver) RemoveVolume(ctx context.Context, name string) error {
	_, err := d.API.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the volume %s: %w", name, err)
	}
	if err := os.RemoveAll(d.cacheNotes(name)); err != nil {
		return fmt.Errorf("forgetting the volume %s: %w", name, err)
	}
	return nil
}

// GitVolume is a volume with the git directory of a sandbox's own.
type GitVolume struct{ Name, Sandbox string }

// GitVolumes returns those that sandboxes of a repository have left, or still
// have, by the path of its main work tree.
func (d *Driver) GitVolumes(ctx context.Context, mainRoot string) ([]GitVolume, error) {
	res, err := d.API.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("label", labelCreatedBy+"="+createdBy).Add("label", labelRole+"="+roleGit).Add("label", labelRoot+"="+mainRoot)})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var all []GitVolume
	for _, v := range res.Items {
		if sandbox := v.Labels[labelSandbox]; v.Name == gitVolume(sandbox) {
			all = append(all, GitVolume{v.Name, sandbox})
		}
	}
	return all, nil
}
