package programs

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// Egress ensures that the image of ralph-egress of this version is on the engine, and
// returns its ID. Containers are created by ID, because engines resolve names again for
// each container they list.
func (i *Installer) Egress(ctx context.Context) (id string, err error) {
	p, err := guestbin.Egress(i.Arch)
	if err != nil {
		return "", err
	}
	i.egressMu.Lock()
	defer i.egressMu.Unlock()
	if i.egress != "" {
		return i.egress, nil
	}
	tag := egressTag(p)
	image, err := i.API.ImageInspect(ctx, tag)
	if errdefs.IsNotFound(err) {
		if err = i.loadEgress(ctx, p, tag); err == nil {
			image, err = i.API.ImageInspect(ctx, tag)
		}
	}
	if err != nil {
		return "", fmt.Errorf("loading the proxy's image: %w", err)
	}
	i.egress = image.ID
	return image.ID, nil
}

func (i *Installer) loadEgress(ctx context.Context, p guestbin.Payload, tag string) error {
	program, err := p.Binary()
	if err != nil {
		return err
	}
	if err := i.loadImage(ctx, tag, p.Arch(), guestbin.EgressProgram, program); err != nil {
		return err
	}
	i.removeReplaced(ctx, tag)
	return i.recordAge(ctx, tag)
}
