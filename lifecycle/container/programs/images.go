package programs

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// The repositories of the images.
const (
	ralphRepository  = "docker-ralph/guest"
	egressRepository = "docker-ralph/egress"
)

// egressTag returns the tag of the image that contains a version of ralph-egress.
func egressTag(p guestbin.Payload) string { return egressRepository + ":" + p.Short() }

// Image is the image of a version of ralph or ralph-egress.
type Image struct {
	ID, Tag string
	Size    int64
	Current bool // of this version
}

// Images lists the images of all versions.
func (i *Installer) Images(ctx context.Context) ([]Image, error) {
	ralph, err := guestbin.For(i.Arch)
	if err != nil {
		return nil, err
	}
	egress, err := guestbin.Egress(i.Arch)
	if err != nil {
		return nil, err
	}
	var images []Image
	for repository, current := range map[string]string{ralphRepository: ImageTag(ralph), egressRepository: egressTag(egress)} {
		all, err := i.list(ctx, repository)
		if err != nil {
			return nil, err
		}
		for _, image := range all.Items {
			for _, tag := range image.RepoTags {
				if strings.HasPrefix(tag, repository+":") {
					images = append(images, Image{ID: image.ID, Tag: tag, Size: image.Size, Current: tag == current || tag == current+loadingSuffix})
				}
			}
		}
	}
	return images, nil
}

func (i *Installer) list(ctx context.Context, repository string) (client.ImageListResult, error) {
	all, err := i.API.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", engine.LabelCreatedBy+"="+engine.CreatedBy).Add("reference", repository)})
	if err != nil {
		err = fmt.Errorf("listing images of earlier versions: %w", err)
	}
	return all, err
}

// Remove removes the image of an earlier version. It is an error if a container uses it.
func (i *Installer) Remove(ctx context.Context, tag string) error {
	_, err := i.API.ImageRemove(ctx, tag, client.ImageRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing image %s: %w", tag, err)
	}
	return nil
}
