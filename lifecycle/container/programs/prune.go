package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// programAge is how long images of other versions are kept. Users of one engine can have
// different versions.
const programAge = 7 * 24 * time.Hour

// recordAge sets the tag time of an image on engines where loading does not.
func (i *Installer) recordAge(ctx context.Context, tag string) error {
	image, err := i.API.ImageInspect(ctx, tag)
	if err == nil && image.Metadata.LastTagTime.IsZero() {
		_, err = i.API.ImageTag(ctx, client.ImageTagOptions{Source: tag, Target: tag})
	}
	return err
}

// removeReplaced removes images that a new one replaces. Failures are only warnings.
func (i *Installer) removeReplaced(ctx context.Context, tag string) {
	if err := i.removeOldPrograms(ctx, tag, programAge); err != nil && ctx.Err() == nil {
		i.Warn("Warning: " + err.Error())
	}
}

// removeOldPrograms removes the images of other versions, except those younger than age
// and those in use.
func (i *Installer) removeOldPrograms(ctx context.Context, tag string, age time.Duration) error {
	repository, _, _ := strings.Cut(tag, ":")
	all, err := i.list(ctx, repository)
	if err != nil {
		return err
	}
	var errs []error
	for _, image := range all.Items {
		for _, other := range image.RepoTags {
			if strings.HasPrefix(other, repository+":") && other != tag {
				errs = append(errs, i.removeOldProgram(ctx, other, age))
			}
		}
	}
	return errors.Join(errs...)
}

func (i *Installer) removeOldProgram(ctx context.Context, tag string, age time.Duration) error {
	image, err := i.API.ImageInspect(ctx, tag)
	if err == nil {
		since := image.Metadata.LastTagTime
		if since.IsZero() || time.Since(since) < age {
			return nil // unknown or too young
		}
		_, err = i.API.ImageRemove(ctx, tag, client.ImageRemoveOptions{})
	}
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("removing image %s of an earlier version: %w", tag, err)
	}
	return nil
}
