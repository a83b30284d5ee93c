package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/lifecycle/payload"
)

// ensureEgress makes sure that the image with the proxy, the firewall and the
// canary of this version is on the engine, and returns its tag.
func (d *Driver) ensureEgress(ctx context.Context) (tag string, err error) {
	info, err := d.info(ctx)
	if err != nil {
		return "", err
	}
	p, err := payload.Egress(info.Architecture)
	if err != nil {
		return "", err
	}
	tag = "docker-ralph/egress:" + p.Short()
	d.engine.mu.Lock()
	defer d.engine.mu.Unlock()
	if d.engine.egress == tag {
		return tag, nil
	}
	_, err = d.API.ImageInspect(ctx, tag)
	if errdefs.IsNotFound(err) {
		err = d.loadEgress(ctx, p, tag)
	}
	if err != nil {
		return "", fmt.Errorf("putting the proxy's image on the engine: %w", err)
	}
	d.engine.egress = tag
	return tag, nil
}

func (d *Driver) loadEgress(ctx context.Context, p payload.Payload, tag string) error {
	program, err := p.Binary()
	if err != nil {
		return err
	}
	return d.loadImage(ctx, tag, p.Arch(), payload.EgressProgram, program)
}
