// Package projectimage ensures that the image of a sandbox exists: it builds the image of an
// agent on a base image, and the layer of a project on that, or pulls an image of the user.
// Tags depend on the content, so an unchanged image costs a single inspect.
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

// Engine is the part of [client.APIClient] that this package uses.
type Engine interface {
	ImageInspect(ctx context.Context, image string, options ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImagePull(ctx context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error)
	ImageList(ctx context.Context, options client.ImageListOptions) (client.ImageListResult, error)
	ImageRemove(ctx context.Context, image string, options client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	DiskUsage(ctx context.Context, options client.DiskUsageOptions) (client.DiskUsageResult, error)

	// Containers show which images are in use. Those created are never started.
	ContainerList(ctx context.Context, options client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerCreate(ctx context.Context, options client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerStatPath(ctx context.Context, id string, options client.ContainerStatPathOptions) (client.ContainerStatPathResult, error)
	ContainerRemove(ctx context.Context, id string, options client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)

	// DialHijack and Dialer connect to BuildKit.
	DialHijack(ctx context.Context, url, proto string, meta map[string][]string) (net.Conn, error)
	Dialer() func(context.Context) (net.Conn, error)
	DaemonHost() string
}

// Credentials returns the credentials for a registry. See [ReadCredentials].
type Credentials = authprovider.AuthConfigProvider

// Request describes an image.
type Request struct {
	Agent    string   // one of [Agents]
	Base     string   // upstream base image; empty for the agent's default
	CA       string   // certificates in PEM that the image trusts; empty for its own only
	Project  *Project // the layer on the agent image; nil for none
	Image    string   // use this image unchanged, pull it if it is missing, and build nothing
	Platform string   // such as "linux/arm64"; empty for the engine's
	Rebuild  bool     // Pull and NoCache
	Pull     bool     // pull the base again and rebuild existing images
	NoCache  bool     // rebuild existing images without the cache
	Again    bool     // rebuild existing images with the cache
}

// force reports whether existing images are rebuilt.
func (r Request) force() bool { return r.Again || r.pull() || r.noCache() }

func (r Request) pull() bool    { return r.Rebuild || r.Pull }
func (r Request) noCache() bool { return r.Rebuild || r.NoCache }

// Image is an image on the engine.
type Image struct {
	Ref   string // reference to create containers from
	ID    string
	Built bool // whether this call built it
}

// Builder ensures images on one engine.
type Builder struct {
	Engine     Engine
	Auth       Credentials // nil: pull without credentials
	ConfigFile string      // Docker's, which names the credential helpers, for messages
	Progress   Progress
	ProxyArgs  map[string]*string // proxy variables for the build steps; nil values are omitted
	Secrets    []Secret           // for RUN --mount=type=secret
	LockDir    string             // directory for locks and records
}

// Ensure returns the image of a request, and builds or pulls it if it is missing. An existing
// image costs one inspect, and one more with a project's layer.
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

// Ref returns the reference that Ensure would return, without engine calls.
func Ref(req Request) (string, error) {
	tags, err := Needs(req)
	if err != nil || req.Image != "" {
		return req.Image, err
	}
	return tags[len(tags)-1], nil
}

// specOf describes the agent image of a request.
func specOf(req Request) (buildSpec, error) {
	spec, err := agentSpec(req)
	if err != nil || req.Platform == "" {
		return spec, err
	}
	platform, err := platforms.Parse(req.Platform)
	if err != nil {
		return buildSpec{}, fmt.Errorf("invalid platform %q: %w", req.Platform, err)
	}
	// On most engines, a tag has one platform.
	spec.platform = platforms.Format(platforms.Normalize(platform))
	content := slices.Concat(spec.dockerfile, []byte("\x00"+spec.platform))
	spec.tag, spec.labels[labelDigest] = agentTag(req.Agent, spec.base, content), agentDigest(spec.base, content)
	return spec, nil
}

// ensureBuilt returns an agent image, and builds it if it is missing or req forces it.
func (b *Builder) ensureBuilt(ctx context.Context, spec buildSpec, req Request) (Image, error) {
	if !req.force() {
		if image, found, err := b.lookupBuilt(ctx, spec); err != nil || found {
			return image, err
		}
	}
	unlock, err := b.lock(ctx, spec.tag)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if !req.force() {
		// The previous holder of the lock may have built it.
		if image, found, err := b.lookupBuilt(ctx, spec); err != nil || found {
			return image, err
		}
	}
	base, err := b.ensureBase(ctx, spec, req.pull())
	if err != nil {
		return Image{}, err
	}
	return b.buildOn(ctx, spec, base, kindAgent, req.noCache())
}

// buildOn builds spec on the current image of its base.
func (b *Builder) buildOn(ctx context.Context, spec buildSpec, baseID, kind string, noCache bool) (Image, error) {
	spec.labels = maps.Clone(spec.labels)
	spec.labels[labelKind], spec.labels[labelBaseID] = kind, baseID
	if err := b.build(ctx, spec, noCache); err != nil {
		return Image{}, err
	}
	image, found, err := b.lookupBuilt(ctx, spec)
	if err == nil && !found {
		err = removedError(spec.tag)
	}
	if err == nil {
		err = b.recordBuilt(image)
	}
	image.Built = true
	return image, err
}

// lookupBuilt looks up the image of spec. An image of another content can have the same tag,
// which is only a part of the digest.
func (b *Builder) lookupBuilt(ctx context.Context, spec buildSpec) (_ Image, found bool, _ error) {
	image, found, err := b.inspect(ctx, spec.tag)
	if err != nil || !found || !spec.builtAs(image) {
		return Image{}, false, err
	}
	return Image{Ref: spec.tag, ID: image.ID}, true, nil
}

// lookup inspects an image; a missing one is not an error.
func (b *Builder) lookup(ctx context.Context, ref string) (_ Image, found bool, _ error) {
	result, found, err := b.inspect(ctx, ref)
	if err != nil || !found {
		return Image{}, false, err
	}
	return Image{Ref: ref, ID: result.ID}, true, nil
}

// inspect inspects an image; a missing one is not an error.
func (b *Builder) inspect(ctx context.Context, ref string) (_ client.ImageInspectResult, found bool, _ error) {
	result, err := b.Engine.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return result, true, nil
	case ctx.Err() != nil:
		return result, false, fmt.Errorf("inspecting image %q: %w", ref, ctx.Err())
	case errdefs.IsNotFound(err):
		return result, false, nil
	default:
		return result, false, fmt.Errorf("inspecting image %q: %w", ref, err)
	}
}
