package projectimage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Unused returns the images that can be removed. An image stays if a container uses it, if it
// is needed by its tag, if it has a foreign tag, if its origin is needed, or if an image that
// stays is built on it.
func Unused(all []Stored, needed []string) []Stored {
	var origins []string
	for _, s := range all {
		if s.anyTag(needed) {
			origins = append(origins, shortID(s.ID))
		}
	}
	stays := func(s Stored) bool {
		return len(s.UsedBy) > 0 || len(s.Foreign) > 0 || s.anyTag(needed) || s.Origin != "" && slices.Contains(origins, s.Origin)
	}
	var bases, baseIDs []string
	for _, s := range all {
		if s.Kind == kindProject && stays(s) {
			bases, baseIDs = append(bases, s.Base), append(baseIDs, s.BaseID)
		}
	}
	var unused []Stored
	for _, s := range all {
		if !stays(s) && !slices.Contains(baseIDs, s.ID) && !s.anyTag(bases) {
			unused = append(unused, s)
		}
	}
	return unused
}

// anyTag reports whether the image has one of the tags.
func (s Stored) anyTag(tags []string) bool {
	return slices.ContainsFunc(s.Tags, func(tag string) bool { return slices.Contains(tags, tag) })
}

// Kept is an image that was not removed.
type Kept struct {
	Stored
	Why string
}

// Pruned is what [Builder.Prune] did.
type Pruned struct {
	Removed []Stored
	Kept    []Kept // those in use since
	Freed   int64  // bytes; 0 if unknown
}

// Prune removes images, except those that are used by a build or a container meanwhile. With
// an error, it returns what was done before.
func (b *Builder) Prune(ctx context.Context, images []Stored) (Pruned, error) {
	before := b.used(ctx)
	images = slices.Clone(images)
	// Old engines keep parent images.
	slices.SortStableFunc(images, func(x, y Stored) int { return rank(x) - rank(y) })
	var done Pruned
	var failed error
	for _, image := range images {
		why, err := b.remove(ctx, image)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case why != "":
			done.Kept = append(done.Kept, Kept{image, why})
		default:
			done.Removed = append(done.Removed, image)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if before > 0 && len(done.Removed) > 0 {
		if after := b.used(ctx); after > 0 && after < before {
			done.Freed = before - after
		}
	}
	return done, failed
}

// rank orders images before their parents.
func rank(s Stored) int {
	return slices.Index([]string{kindUserMapped, kindProject, kindAgent}, s.Kind)
}

// usageTimeout bounds the disk usage call: old engines include volumes.
const usageTimeout = 10 * time.Second

// used returns the disk usage of images, 0 if unknown.
func (b *Builder) used(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	usage, err := b.Engine.DiskUsage(ctx, client.DiskUsageOptions{Images: true})
	if err != nil {
		return 0
	}
	return usage.Images.TotalSize
}

// remove removes an image with all of its names, or says why not.
func (b *Builder) remove(ctx context.Context, image Stored) (why string, _ error) {
	// The name that a build asks for comes last: with it, the engine makes sure
	// that no container uses the image.
	tags := slices.Clone(image.Tags)
	slices.SortStableFunc(tags, func(x, y string) int { return last(x, image) - last(y, image) })
	for _, tag := range tags {
		unlock, free, err := b.tryLock(tag)
		if err != nil {
			return "", err
		}
		if !free {
			return "it is used by a build", nil
		}
		defer unlock()
	}
	if len(tags) == 0 {
		tags = []string{image.ID}
	}
	for _, tag := range tags {
		if why, err := b.removeTag(ctx, image, tag); err != nil || why != "" {
			return why, err
		}
	}
	return "", b.forgetBuilt(image.ID)
}

// last orders the names of an image: its own one after all others.
func last(tag string, image Stored) int {
	if tag == image.Name() {
		return 1
	}
	return 0
}

// removeTag removes one name of an image, and the image with its last one.
func (b *Builder) removeTag(ctx context.Context, image Stored, tag string) (why string, _ error) {
	now, found, err := b.lookup(ctx, tag)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", nil
	case now.ID != image.ID:
		return "it was rebuilt", nil
	}
	_, err = b.Engine.ImageRemove(ctx, tag, client.ImageRemoveOptions{})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return "", nil
	case errdefs.IsConflict(err):
		return "it is in use: " + err.Error(), nil
	default:
		return "", fmt.Errorf("removing image %q: %w", tag, canceledOr(ctx, err))
	}
}
