package projectimage

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/jsonmessage"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// imageID matches image IDs.
var imageID = lazyregexp.New(`^(sha256:)?[0-9a-f]{64}$`)

// ensureGiven ensures a user's image, and that it is suitable.
func (b *Builder) ensureGiven(ctx context.Context, ref string) (Image, error) {
	image, err := b.given(ctx, ref)
	if err == nil {
		err = b.checkSuitable(ctx, ref, image)
	}
	if err != nil {
		return Image{}, err
	}
	return Image{Ref: ref, ID: image.ID}, nil
}

// given returns a user's image, and pulls it if it is missing.
func (b *Builder) given(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	image, found, err := b.inspect(ctx, ref)
	if err != nil || found {
		return image, err
	}
	if imageID().MatchString(ref) {
		return image, hint.Wrap(fmt.Errorf("no image with the ID %q on the engine", ref), "pass the name of an image with --image IMAGE")
	}
	if err := b.pull(ctx, ref, ""); err != nil {
		return image, hint.Wrap(fmt.Errorf("image %q is not on the engine and cannot be pulled: %w", ref, err),
			"build or load it first, or use another one with --image IMAGE")
	}
	image, found, err = b.inspect(ctx, ref)
	if err == nil && !found {
		err = removedError(ref)
	}
	return image, err
}

// removedError says that an image was removed right after it was built or pulled.
func removedError(ref string) error {
	return hint.Wrap(fmt.Errorf("image %q was removed meanwhile", ref), "run the command again")
}

// ensureBase ensures the base image, and returns its ID. It is pulled by name rather than by
// the build, so that the engine can use it again without the registry. With refresh it is
// pulled again; if that fails, the local one is used.
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
			err = removedError(spec.base)
		}
		return result.ID, err
	case ctx.Err() != nil:
		return "", fmt.Errorf("pulling base image %q: %w", spec.base, ctx.Err())
	case found:
		b.Progress.notice("cannot pull base image %s, using the local one: %v", spec.base, err)
		return result.ID, nil
	default:
		return "", hint.Wrap(fmt.Errorf("base image %q is not on the engine and cannot be pulled: %w", spec.base, err),
			"choose another base with --base IMAGE or [image] base in ralph.toml, or use an image unchanged with --image IMAGE")
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

// Pull pulls an image, even if it exists. An empty platform is the engine's.
func (b *Builder) Pull(ctx context.Context, ref, platform string) (Image, error) {
	if err := b.pull(ctx, ref, platform); err != nil {
		return Image{}, fmt.Errorf("pulling image %q: %w", ref, err)
	}
	image, found, err := b.lookup(ctx, ref)
	if err == nil && !found {
		err = removedError(ref)
	}
	return image, err
}

// pull pulls an image and displays the progress.
func (b *Builder) pull(ctx context.Context, ref, platform string) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fmt.Errorf("invalid image name %q: %w", ref, err)
	}
	auth, problem, err := b.registryAuth(ctx, reference.Domain(named))
	if err != nil {
		return err
	}
	options := client.ImagePullOptions{RegistryAuth: auth}
	if platform != "" {
		wanted, err := platforms.Parse(platform)
		if err != nil {
			return fmt.Errorf("invalid platform %q: %w", platform, err)
		}
		options.Platforms = []platforms.Platform{wanted}
	}
	response, err := b.Engine.ImagePull(ctx, reference.FamiliarString(named), options)
	if err != nil {
		if hints := hint.Of(problem); len(hints) > 0 && ctx.Err() == nil {
			return hint.Wrap(err, "%s", hints[0])
		}
		return canceledOr(ctx, err)
	}
	defer func() { _ = response.Close() }()
	return canceledOr(ctx, b.Progress.showPull(response))
}

// showPull displays a pull, and returns its error.
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

// canceledOr replaces an error by that of ctx if ctx has ended, which is its cause.
func canceledOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Upstream returns the user's image of a request, or else the base of the agent image.
func Upstream(req Request) (string, error) {
	if req.Image != "" {
		return req.Image, nil
	}
	spec, err := specOf(req)
	return spec.base, err
}
