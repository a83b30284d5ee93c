// Package images builds, pulls, lists and prunes the images of a scope.
package images

import (
	"context"
	"fmt"

	"github.com/containerd/platforms"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// BuildOptions are the options of [Build].
type BuildOptions struct {
	Overrides config.Overrides
	// Platform, Pull and NoCache are as in [projectimage.Request].
	Platform      string
	Pull, NoCache bool
	Secrets       []projectimage.Secret
}

// Build builds the image of the current scope's sandboxes, unless it is up to date
// with its base image, and returns its tag.
func Build(ctx context.Context, h host.Host, opts BuildOptions) (ref string, err error) {
	connected := h.Connect()
	s, err := findImageScope(ctx, h, opts.Overrides)
	if err != nil {
		return "", err
	}
	if s.req.Image != "" {
		return "", hint.Wrap(fmt.Errorf("nothing to build: sandboxes use image %s (%s)", s.req.Image, s.cfg.Origins["sandbox.image"]),
			"pull it with %q, or remove the setting to build an image", "docker ralph image pull")
	}
	if !s.inside {
		h.Report(fmt.Sprintf("Not inside a git repository: building the image of agent %s alone", s.req.Agent))
	}
	if s.cfg.Sandbox.Driver == config.DriverDockerSandbox {
		h.Report("Warning: driver docker-sandbox does not use this image")
	}
	if err := approval.ApproveBuild(ctx, h, s.req.Project); err != nil {
		return "", err
	}
	api, err := connected()
	if err != nil {
		return "", err
	}
	builder := h.Builder(api)
	builder.Secrets = opts.Secrets
	req := s.req
	req.Pull, req.NoCache = opts.Pull, opts.NoCache
	if req.Platform, err = otherPlatform(ctx, api, opts.Platform); err != nil {
		return "", err
	}
	// Runs keep using an image whose base has changed; an explicit build does not.
	if req.Again, err = builder.BaseChanged(ctx, req); err != nil {
		return "", err
	}
	image, err := builder.Ensure(ctx, req)
	if err != nil {
		return "", err
	}
	if !image.Built {
		h.Report("Up to date: nothing was built")
	}
	return image.Ref, nil
}

// otherPlatform returns "" for the engine's own platform, whose images sandboxes
// use.
func otherPlatform(ctx context.Context, api host.API, platform string) (string, error) {
	if platform == "" {
		return "", nil
	}
	wanted, err := platforms.Parse(platform)
	if err != nil {
		return "", fmt.Errorf("invalid platform %q: %w", platform, err)
	}
	res, err := api.Info(ctx, client.InfoOptions{})
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err() // the client does not wrap it
	}
	if err != nil {
		return "", fmt.Errorf("reading the engine's platform: %w", err)
	}
	own := platforms.Normalize(platforms.Platform{OS: res.Info.OSType, Architecture: res.Info.Architecture})
	if platforms.Format(own) == platforms.Format(platforms.Normalize(wanted)) {
		return "", nil
	}
	return platform, nil
}

// Pull pulls an image and returns its reference. Without ref it pulls what the
// sandboxes of the current scope need: the configured image, or else the base of
// the agent image.
func Pull(ctx context.Context, h host.Host, over config.Overrides, ref, platform string) (string, error) {
	connected := h.Connect()
	if ref == "" {
		s, err := findImageScope(ctx, h, over)
		if err != nil {
			return "", err
		}
		if ref, err = projectimage.Upstream(s.req); err != nil {
			return "", err
		}
	}
	api, err := connected()
	if err != nil {
		return "", err
	}
	image, err := h.Builder(api).Pull(ctx, ref, platform)
	return image.Ref, err
}
