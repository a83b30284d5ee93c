package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// ensureEgress ensures that the image of ralph-egress of this version is on the engine,
// and returns its ID. Containers are created by ID, because engines resolve names again
// for each container they list.
func (d *Driver) ensureEgress(ctx context.Context) (id string, err error) {
	info, err := d.info(ctx)
	if err != nil {
		return "", err
	}
	p, err := guestbin.Egress(info.Architecture)
	if err != nil {
		return "", err
	}
	d.engine.egressMu.Lock()
	defer d.engine.egressMu.Unlock()
	if d.engine.egress != "" {
		return d.engine.egress, nil
	}
	tag := "docker-ralph/egress:" + p.Short()
	there, err := d.API.ImageInspect(ctx, tag)
	if errdefs.IsNotFound(err) {
		if err = d.loadEgress(ctx, p, tag); err == nil {
			there, err = d.API.ImageInspect(ctx, tag)
		}
	}
	if err != nil {
		return "", fmt.Errorf("loading the proxy's image: %w", err)
	}
	d.engine.egress = there.ID
	return there.ID, nil
}

func (d *Driver) loadEgress(ctx context.Context, p guestbin.Payload, tag string) error {
	program, err := p.Binary()
	if err != nil {
		return err
	}
	if err := d.loadImage(ctx, tag, p.Arch(), guestbin.EgressProgram, program); err != nil {
		return err
	}
	d.replacePrograms(ctx, tag)
	return d.recordAge(ctx, tag)
}
