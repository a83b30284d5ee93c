package projectimage

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/jsonmessage"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// imageID matches what the engine takes for an image ID and no registry has.
var imageID = lazyregexp.New(`^(sha256:)?[0-9a-f]{64}$`)

// ensureGiven makes sure of an image that is used as it is, and that it is fit
// for that.
func (b *Builder) ensureGiven(ctx context.Context, ref string) (Image, error) {
	image, err := b.given(ctx, ref)
	if err == nil {
		err = b.checkGiven(ctx, ref, image)
	}
	if err != nil {
		return Image{}, err
	}
	return Image{Ref: ref, ID: image.ID}, nil
}

// given returns a given image, which is pulled when the engine lacks it.
func (b *Builder) given(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	image, found, err := b.inspect(ctx, ref)
	if err != nil || found {
		return image, err
	}
	if imageID().MatchString(ref) {
		return image, fmt.Errorf("the engine has no image with the ID %q: give the name of an image with --image IMAGE", ref)
	}
	if err := b.pull(ctx, ref, ""); err != nil {
		return image, fmt.Errorf("image %q is not on the engine and cannot be pulled: %w; "+
			"build, load or pull it first, or give another with --image IMAGE", ref, err)
	}
	image, found, err = b.inspect(ctx, ref)
	if err == nil && !found {
		err = fmt.Errorf("the engine pulled image %q but does not have it: somebody removed it, run the command again", ref)
	}
	return image, err
}

// ensureBase makes sure that the engine has the base image, and returns its ID.
// It is pulled by name rather than by the build, so that the engine keeps it
// under its name and can build on it again without a registry. With refresh it
// is pulled although it is there; when that fails the one that is there is used.
func (b *Builder) ensureBase(ctx context.Context, spec buildSpec, refresh bool) (id string, _ error) {
	result, found, err := b.inspect(ctx, spec.base)
	if err != nil {
		return "", err
	}
	found = found && fits(result, spec.platform)
	if found && !refresh {
		return result.ID, nil
	}
	err = b.pull(ctx, spec.base, spec.platform)
	switch {
	case err == nil:
		result, found, err = b.inspect(ctx, spec.base)
		if err == nil && !found {
			err = fmt.Errorf("the engine pulled base image %q but does not have it: somebody removed it, run the command again", spec.base)
		}
		return result.ID, err
	case ctx.Err() != nil:
		return "", fmt.Errorf("pulling base image %q: %w", spec.base, ctx.Err())
	case found:
		b.Progress.notice("base image %s cannot be pulled again, going on with the one that is here: %v", spec.base, err)
		return result.ID, nil
	default:
		return "", &BaseError{Base: spec.base, Err: err}
	}
}

// fits reports whether an image is for a platform; every image is for "".
func fits(image client.ImageInspectResult, platform string) bool {
	if platform == "" {
		return true
	}
	wanted, err := platforms.Parse(platform)
	return err == nil && platforms.Only(wanted).Match(platforms.Platform{OS: image.Os, Architecture: image.Architecture, Variant: image.Variant})
}

// Pull pulls an image, also when the engine has one of that name. An empty
// platform means the engine's own.
func (b *Builder) Pull(ctx context.Context, ref, platform string) (Image, error) {
	if err := b.pull(ctx, ref, platform); err != nil {
		return Image{}, fmt.Errorf("pulling image %q: %w", ref, err)
	}
	image, found, err := b.lookup(ctx, ref)
	if err == nil && !found {
		err = fmt.Errorf("the engine pulled image %q but does not have it: somebody removed it, run the command again", ref)
	}
	return image, err
}

// BaseError says that a base image is neither on the engine nor to be pulled.
type BaseError struct {
	Base string
	Err  error // the engine's reason
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("base image %q is not on the engine and cannot be pulled: %v\n"+
		"give another base with --base IMAGE or with base under [image] in ralph.toml, or use an image as it is with --image IMAGE",
		e.Base, e.Err)
}

func (e *BaseError) Unwrap() error { return e.Err }

// pull pulls ref with live progress.
func (b *Builder) pull(ctx context.Context, ref, platform string) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fmt.Errorf("%q is not the name of an image: %w", ref, err)
	}
	auth, err := b.registryAuth(ctx, reference.Domain(named))
	if err != nil {
		return err
	}
	options := client.ImagePullOptions{RegistryAuth: auth}
	if platform != "" {
		wanted, err := platforms.Parse(platform)
		if err != nil {
			return &InvalidPlatformError{Platform: platform, Err: err}
		}
		options.Platforms = []platforms.Platform{wanted}
	}
	response, err := b.Engine.ImagePull(ctx, reference.FamiliarString(named), options)
	if err != nil {
		return canceledOr(ctx, err)
	}
	defer func() { _ = response.Close() }()
	return canceledOr(ctx, b.Progress.showPull(response))
}

// registryAuth returns the credentials for host as the Engine API takes them,
// "" without any.
func (b *Builder) registryAuth(ctx context.Context, host string) (string, error) {
	if b.Auth == nil {
		return "", nil
	}
	if host == "docker.io" {
		host = authprovider.DockerHubRegistryHost
	}
	credentials, err := b.Auth(ctx, host, nil, nil)
	if err != nil {
		return "", fmt.Errorf("reading the credentials for registry %s: %w", host, err)
	}
	encoded, err := authconfig.Encode(registry.AuthConfig(credentials))
	if err != nil {
		return "", fmt.Errorf("encoding the credentials for registry %s: %w", host, err)
	}
	return encoded, nil
}

// showPull shows the engine's messages until the pull ends, and returns the
// error that it ended with.
func (p Progress) showPull(messages io.Reader) error {
	switch {
	case p.silent():
		return jsonmessage.DisplayStream(messages, io.Discard)
	case p.Mode == ModeRawJSON:
		return jsonmessage.DisplayStream(io.TeeReader(messages, p.Out), io.Discard)
	case p.Mode == ModePlain:
		return jsonmessage.DisplayJSONMessagesStream(messages, p.Out, 0, false, nil)
	default:
		return jsonmessage.DisplayStream(messages, p.Out)
	}
}

// canceledOr puts ctx's error in place of err when ctx has ended: what a broken
// connection says then is only a consequence.
func canceledOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Upstream returns the image that req takes from somewhere else: the one that is
// used as it is, or else the base of the agent's image.
func Upstream(req Request) (string, error) {
	if req.Image != "" {
		return req.Image, nil
	}
	spec, err := specOf(req)
	return spec.base, err
}
