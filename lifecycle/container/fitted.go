package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// fittedImage returns the image in which the user has a name. The root file
// system of a sandbox that is read-only cannot be changed any more, not even
// before it is started: so an image in which the user has none gets a layer
// with one, once.
func (d *Driver) fittedImage(ctx context.Context, spec lifecycle.Spec, user string) (string, error) {
	if !spec.ReadOnly {
		return spec.Image, nil
	}
	uid, gid, _ := strings.Cut(user, ":")
	res, err := d.API.ImageInspect(ctx, spec.Image)
	if err != nil {
		return "", fmt.Errorf("looking at the image %s: %w", spec.Image, err)
	}
	_, digest, _ := strings.Cut(res.ID, ":")
	tag := fmt.Sprintf("docker-ralph/fitted:%.12s-%s-%s", digest, uid, gid)
	named := d.fitPath(res.ID, uid, gid) + "-named"
	for _, note := range []string{d.fitPath(res.ID, uid, gid), named} {
		if _, err := os.Stat(note); err == nil {
			return spec.Image, nil
		}
	}
	if _, err = d.API.ImageInspect(ctx, tag); err == nil {
		return tag, nil
	}
	if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("looking at the image %s: %w", tag, err)
	}
	changed, err := d.fitImage(ctx, spec.Image, tag, uid, gid)
	switch {
	case err != nil:
		return "", fmt.Errorf("naming the user %s in the image %s: %w", user, spec.Image, err)
	case changed:
		return tag, nil
	}
	if err := os.MkdirAll(filepath.Dir(named), 0o700); err != nil {
		return "", err
	}
	return spec.Image, os.WriteFile(named, nil, 0o600)
}

// fitImage names the user in a container that is never started, and makes the
// image tag of it if anything had to be changed.
func (d *Driver) fitImage(ctx context.Context, image, tag, uid, gid string) (changed bool, err error) {
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:           image,
			Entrypoint:      []string{"/bin/sh"},
			Labels:          map[string]string{labelCreatedBy: createdBy},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.removeContainer(context.WithoutCancel(ctx), made.ID)) }()
	changed, err = d.nameUser(ctx, made.ID, uid, gid)
	if err != nil || !changed {
		return false, err
	}
	_, err = d.API.ContainerCommit(ctx, made.ID, client.ContainerCommitOptions{Reference: tag, NoPause: true})
	if err == nil {
		return true, nil
	}
	// Another dispatch may have made the same image at the same moment: an
	// engine with a containerd store refuses one of the two.
	if _, missing := d.API.ImageInspect(ctx, tag); missing == nil {
		return true, nil
	}
	return false, err
}
