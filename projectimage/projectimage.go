// Package projectimage makes sure that the image of a sandbox exists: it builds
// the image of an agent on an upstream base, or pulls an image that the user
// chose. Images are tagged by what they are made of, so an unchanged one costs
// a single inspect.
package projectimage

import (
	"context"
	"fmt"
	"net"

	"github.com/containerd/errdefs"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/client"
)

// Engine is the part of the Engine API that this package uses. A
// [client.APIClient] satisfies it.
type Engine interface {
	ImageInspect(ctx context.Context, image string, options ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImagePull(ctx context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error)

	// DialHijack and Dialer carry the BuildKit connection; DaemonHost tells
	// whether the engine's own socket is local.
	DialHijack(ctx context.Context, url, proto string, meta map[string][]string) (net.Conn, error)
	Dialer() func(context.Context) (net.Conn, error)
	DaemonHost() string
}

// Credentials gives the credentials for a registry host. For the Docker CLI's
// own it is authprovider.LoadAuthConfig of its config file.
type Credentials = authprovider.AuthConfigProvider

// Request says which image is wanted.
type Request struct {
	Agent   string // one of [Agents]
	Base    string // upstream base image; empty for the agent's default
	Image   string // use this image as it is: nothing is built, and it is pulled when absent
	Rebuild bool   // fetch the base again and build without cache, although the tag exists
}

// Image is an image that the engine has.
type Image struct {
	Ref   string // what to create containers from
	ID    string // the engine's ID of it
	Built bool   // whether this call built it
}

// Builder makes sure of images on one engine.
type Builder struct {
	Engine    Engine
	Auth      Credentials        // nil: pull without credentials
	Progress  Progress           // how builds and pulls are shown
	ProxyArgs map[string]*string // proxy variables for the build steps; nil values are left out
	LockDir   string             // folder for the locks that keep two processes from building one tag twice
}

// Ensure returns the image that req describes, and builds or pulls it when the
// engine lacks it. An existing image costs one inspect.
//
// Errors: [UnknownAgentError], [BaseError] when the base image cannot be had,
// [BuildError] when a build step fails; when ctx ends, an error that wraps
// ctx.Err().
func (b *Builder) Ensure(ctx context.Context, req Request) (Image, error) {
	if req.Image != "" {
		return b.ensureGiven(ctx, req.Image)
	}
	spec, err := agentSpec(req)
	if err != nil {
		return Image{}, err
	}
	return b.ensureBuilt(ctx, spec, req.Rebuild)
}

// Ref returns the reference that Ensure would return for req, without asking
// the engine.
func Ref(req Request) (string, error) {
	if req.Image != "" {
		return req.Image, nil
	}
	spec, err := agentSpec(req)
	if err != nil {
		return "", err
	}
	return spec.tag, nil
}

// ensureBuilt looks for spec's tag and builds it when it is missing, or anyway
// when rebuild is set.
func (b *Builder) ensureBuilt(ctx context.Context, spec buildSpec, rebuild bool) (Image, error) {
	if !rebuild {
		if image, found, err := b.lookup(ctx, spec.tag); err != nil || found {
			return image, err
		}
	}
	unlock, err := b.lock(ctx, spec.tag)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if !rebuild {
		// Whoever held the lock may have built it in the meantime.
		if image, found, err := b.lookup(ctx, spec.tag); err != nil || found {
			return image, err
		}
	}
	if err := b.ensureBase(ctx, spec.base, rebuild); err != nil {
		return Image{}, err
	}
	if err := b.build(ctx, spec, rebuild); err != nil {
		return Image{}, err
	}
	image, found, err := b.lookup(ctx, spec.tag)
	if err == nil && !found {
		err = fmt.Errorf("the engine built image %q but does not have it: somebody removed it, run the command again", spec.tag)
	}
	image.Built = true
	return image, err
}

// lookup inspects ref once; a missing image is not an error.
func (b *Builder) lookup(ctx context.Context, ref string) (_ Image, found bool, _ error) {
	result, err := b.Engine.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return Image{Ref: ref, ID: result.ID}, true, nil
	case ctx.Err() != nil:
		return Image{}, false, fmt.Errorf("looking for image %q: %w", ref, ctx.Err())
	case errdefs.IsNotFound(err):
		return Image{}, false, nil
	default:
		return Image{}, false, fmt.Errorf("looking for image %q: %w", ref, err)
	}
}
