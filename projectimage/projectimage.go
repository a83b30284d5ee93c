// Package projectimage makes sure that the image of a sandbox exists: it builds
// the image of an agent on an upstream base, and on that the layer that a
// project asks for, or pulls an image that the user chose. Images are tagged by what they are made of, so an unchanged one costs
// a single inspect.
package projectimage

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/client"
)

// Engine is the part of the Engine API that this package uses. A
// [client.APIClient] satisfies it.
type Engine interface {
	ImageInspect(ctx context.Context, image string, options ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImagePull(ctx context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error)
	ImageList(ctx context.Context, options client.ImageListOptions) (client.ImageListResult, error)
	ImageRemove(ctx context.Context, image string, options client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	DiskUsage(ctx context.Context, options client.DiskUsageOptions) (client.DiskUsageResult, error)

	// Containers tell which images are in use. One that is never started shows
	// what is in an image.
	ContainerList(ctx context.Context, options client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerCreate(ctx context.Context, options client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerStatPath(ctx context.Context, id string, options client.ContainerStatPathOptions) (client.ContainerStatPathResult, error)
	ContainerRemove(ctx context.Context, id string, options client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)

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
	Agent    string   // one of [Agents]
	Base     string   // upstream base image; empty for the agent's default
	Project  *Project // the project's layer on the agent's image; nil for none
	Image    string   // use this image as it is: nothing is built, and it is pulled when absent
	Platform string   // build for this one, as "linux/arm64"; empty for the engine's own
	Rebuild  bool     // Pull and NoCache
	Pull     bool     // fetch the base again and build everything on it, although the tags exist
	NoCache  bool     // build everything without cache, although the tags exist
	Again    bool     // build everything with cache, although the tags exist
}

// force reports whether images are built that exist.
func (r Request) force() bool { return r.Again || r.pull() || r.noCache() }

func (r Request) pull() bool    { return r.Rebuild || r.Pull }
func (r Request) noCache() bool { return r.Rebuild || r.NoCache }

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
	Secrets   []Secret           // for RUN --mount=type=secret; they are in no image and no cache
	LockDir   string             // folder for the locks that keep two processes from building one tag twice
}

// Ensure returns the image that req describes, and builds or pulls it when the
// engine lacks it. An existing image costs one inspect, also one that consists
// of an agent's image and a project's layer.
//
// Errors: [UnknownAgentError], [BaseError] when the base image cannot be had,
// [BuildError] when a build step fails; when ctx ends, an error that wraps
// ctx.Err().
func (b *Builder) Ensure(ctx context.Context, req Request) (Image, error) {
	if req.Image != "" {
		return b.ensureGiven(ctx, req.Image)
	}
	spec, err := specOf(req)
	if err != nil {
		return Image{}, err
	}
	if req.Project == nil {
		return b.ensureBuilt(ctx, spec, req)
	}
	return b.ensureProject(ctx, spec, req)
}

// Ref returns the reference that Ensure would return for req, without asking
// the engine.
func Ref(req Request) (string, error) {
	if req.Image != "" {
		return req.Image, nil
	}
	spec, err := specOf(req)
	if err != nil {
		return "", err
	}
	if req.Project != nil {
		return projectTag(req.Agent, spec.tag, *req.Project), nil
	}
	return spec.tag, nil
}

// specOf describes the agent's image that req asks for.
func specOf(req Request) (buildSpec, error) {
	spec, err := agentSpec(req)
	if err != nil || req.Platform == "" {
		return spec, err
	}
	platform, err := platforms.Parse(req.Platform)
	if err != nil {
		return buildSpec{}, &InvalidPlatformError{Platform: req.Platform, Err: err}
	}
	// One tag has one platform on most engines.
	spec.platform = platforms.Format(platforms.Normalize(platform))
	spec.tag = agentTag(req.Agent, spec.base, slices.Concat(spec.dockerfile, []byte("\x00"+spec.platform)))
	return spec, nil
}

// InvalidPlatformError says that a platform is none.
type InvalidPlatformError struct {
	Platform string
	Err      error
}

func (e *InvalidPlatformError) Error() string {
	return fmt.Sprintf("%q is not a platform such as linux/amd64: %v", e.Platform, e.Err)
}

func (e *InvalidPlatformError) Unwrap() error { return e.Err }

// InvalidParameter marks the error as the user's.
func (*InvalidPlatformError) InvalidParameter() {}

// ensureBuilt looks for an agent's image and builds it when it is missing, or
// anyway when req forces it.
func (b *Builder) ensureBuilt(ctx context.Context, spec buildSpec, req Request) (Image, error) {
	if !req.force() {
		if image, found, err := b.lookup(ctx, spec.tag); err != nil || found {
			return image, err
		}
	}
	unlock, err := b.lock(ctx, spec.tag)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if !req.force() {
		// Whoever held the lock may have built it in the meantime.
		if image, found, err := b.lookup(ctx, spec.tag); err != nil || found {
			return image, err
		}
	}
	base, err := b.ensureBase(ctx, spec, req.pull())
	if err != nil {
		return Image{}, err
	}
	image, err := b.buildOn(ctx, spec, base, kindAgent, req.noCache())
	if err == nil {
		err = b.noteBase(image)
	}
	return image, err
}

// buildOn builds spec on the image that its base is now.
func (b *Builder) buildOn(ctx context.Context, spec buildSpec, baseID, kind string, noCache bool) (Image, error) {
	labels := maps.Clone(spec.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelKind], labels[labelBaseID] = kind, baseID
	spec.labels = labels
	if err := b.build(ctx, spec, noCache); err != nil {
		return Image{}, err
	}
	image, found, err := b.lookup(ctx, spec.tag)
	if err == nil && !found {
		err = fmt.Errorf("the engine built image %q but does not have it: somebody removed it, run the command again", spec.tag)
	}
	if err == nil {
		err = b.noteBuilt(image)
	}
	image.Built = true
	return image, err
}

// lookup inspects ref once; a missing image is not an error.
func (b *Builder) lookup(ctx context.Context, ref string) (_ Image, found bool, _ error) {
	result, found, err := b.inspect(ctx, ref)
	if err != nil || !found {
		return Image{}, false, err
	}
	return Image{Ref: ref, ID: result.ID}, true, nil
}

// inspect asks the engine about ref once; a missing image is not an error.
func (b *Builder) inspect(ctx context.Context, ref string) (_ client.ImageInspectResult, found bool, _ error) {
	result, err := b.Engine.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return result, true, nil
	case ctx.Err() != nil:
		return result, false, fmt.Errorf("looking for image %q: %w", ref, ctx.Err())
	case errdefs.IsNotFound(err):
		return result, false, nil
	default:
		return result, false, fmt.Errorf("looking for image %q: %w", ref, err)
	}
}
