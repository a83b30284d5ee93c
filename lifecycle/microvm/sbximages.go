package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"
)

// Engine is the part of the Engine API that images are copied with.
type Engine interface {
	ImageInspect(ctx context.Context, image string, options ...moby.ImageInspectOption) (moby.ImageInspectResult, error)
	ImageSave(ctx context.Context, images []string, options ...moby.ImageSaveOption) (moby.ImageSaveResult, error)
	ImageTag(ctx context.Context, options moby.ImageTagOptions) (moby.ImageTagResult, error)
}

// repository is the name of images in the store of sbx. The tag is the ID on the engine; the
// ID in the store can differ.
const repository = "docker-ralph/sandbox"

// load copies an image of the engine to sbx, unless sbx has it, and returns its name there.
// found is false if the engine does not have it.
func (s *sbx) load(ctx context.Context, d *Driver, image string) (ref string, found bool, err error) {
	res, err := s.engine.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("inspecting image %q: %w", image, err)
	}
	id := strings.TrimPrefix(res.ID, "sha256:")
	if len(id) < 12 {
		return "", false, fmt.Errorf("invalid ID %q of image %q", res.ID, image)
	}
	id = id[:12]
	ref = repository + ":" + id
	unlock, err := d.lock(ctx, "sbx-images.lock")
	if err != nil {
		return "", false, err
	}
	defer unlock()
	has, err := loaded(ctx, d, id)
	if err != nil || has {
		return ref, true, err
	}
	d.Report("Copying image " + image + " to sbx (once)")
	if _, err := s.engine.ImageTag(ctx, moby.ImageTagOptions{Source: res.ID, Target: ref}); err != nil {
		return "", false, fmt.Errorf("tagging image %q for sbx: %w", image, err)
	}
	if err := s.transfer(ctx, d, ref); err != nil {
		return "", false, fmt.Errorf("copying image %q to sbx: %w", image, err)
	}
	return ref, true, nil
}

// transfer copies by a file, because "sbx template load" reads nothing else.
func (s *sbx) transfer(ctx context.Context, d *Driver, ref string) (err error) {
	file, err := os.CreateTemp("", "docker-ralph-*.tar")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	saved, err := s.engine.ImageSave(ctx, []string{ref})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_, err = io.Copy(file, saved)
	if err := errors.Join(err, saved.Close(), file.Close()); err != nil {
		return err
	}
	_, err = d.call(ctx, limitLoad, "template", "load", file.Name())
	return err
}

// loaded reports whether sbx has the image with that ID.
func loaded(ctx context.Context, d *Driver, id string) (bool, error) {
	out, err := d.call(ctx, limitExec, "template", "ls", "--json")
	has := false
	if err == nil {
		has, err = hasImage(out, id)
	}
	if err != nil {
		return false, fmt.Errorf("listing the images of sbx: %w", err)
	}
	return has, nil
}

// hasImage parses the output of "sbx template ls --json".
func hasImage(output []byte, id string) (bool, error) {
	var list struct {
		Images []struct {
			Repository string `json:"repository"`
			Tag        string `json:"tag"`
		} `json:"images"`
	}
	if err := decode(output, &list); err != nil {
		return false, err
	}
	for _, image := range list.Images {
		if image.Tag == id && (image.Repository == repository || strings.HasSuffix(image.Repository, "/"+repository)) {
			return true, nil
		}
	}
	return false, nil
}
