// Package images builds, pulls, lists and prunes the images of a scope.
package images

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/containerd/platforms"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// BuildOptions says which image to build, and how.
type BuildOptions struct {
	// Overrides are configuration from the command line.
	Overrides config.Overrides
	// Platform is as in [projectimage.Request].
	Platform string
	// Pull fetches the base again, NoCache builds everything anew.
	Pull, NoCache bool
	Secrets       []projectimage.Secret
}

// Build makes sure that the image is there which a sandbox of the current
// scope would be made from, and that it is built on what its base is now. It
// returns the image's tag.
func Build(ctx context.Context, h host.Host, opts BuildOptions) (ref string, err error) {
	connected := h.Connect()
	s, err := findImageScope(ctx, h, opts.Overrides)
	if err != nil {
		return "", err
	}
	if s.req.Image != "" {
		return "", fmt.Errorf("nothing is built: the image %s is used as it is (%s). "+
			"Fetch it with \"docker ralph image pull\", or take it out to have an image built", s.req.Image, s.cfg.Origins["sandbox.image"])
	}
	if !s.inside {
		h.Report(fmt.Sprintf("Not inside a git repository: building the image of the agent %s alone", s.req.Agent))
	}
	if s.cfg.Sandbox.Driver == config.DriverDockerSandbox {
		h.Report("Warning: sandboxes of the driver docker-sandbox are not made from this image, but from Docker's own")
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
	// A dispatch goes on with the image that it has; whoever asks for a build
	// wants what there is now.
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

// otherPlatform returns a platform, or "" when it is the engine's own: what is
// built for that is what dispatches use.
func otherPlatform(ctx context.Context, api host.API, platform string) (string, error) {
	if platform == "" {
		return "", nil
	}
	wanted, err := platforms.Parse(platform)
	if err != nil {
		return "", &projectimage.InvalidPlatformError{Platform: platform, Err: err}
	}
	res, err := api.Info(ctx, client.InfoOptions{})
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err() // the client only tells of it in words
	}
	if err != nil {
		return "", fmt.Errorf("asking the engine for its platform: %w", err)
	}
	own := platforms.Normalize(platforms.Platform{OS: res.Info.OSType, Architecture: res.Info.Architecture})
	if platforms.Format(own) == platforms.Format(platforms.Normalize(wanted)) {
		return "", nil
	}
	return platform, nil
}

// Pull fetches an image, and returns its reference. Without one it is what
// the sandboxes of the current scope are made from: the image that is used as it
// is, or else the base of the agent's image.
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
