package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// PruneOptions says which images to remove.
type PruneOptions struct {
	// Overrides are configuration from the command line.
	Overrides config.Overrides
	// Filter chooses among the images that are not in use.
	Filter projectimage.Filter
	// All removes also what the current scope would use.
	All bool
	// DryRun removes nothing.
	DryRun bool
	// Force asks nobody.
	Force bool
}

// Prune removes the images of docker ralph that nothing uses, once the
// user agrees, and returns the names of those that are gone. With DryRun it
// returns those that would be removed.
func Prune(ctx context.Context, h host.Host, opts PruneOptions) ([]string, error) {
	connected := h.Connect()
	needed, err := neededImages(ctx, h, opts)
	if err != nil {
		return nil, err
	}
	api, err := connected()
	if err != nil {
		return nil, err
	}
	builder := h.Builder(api)
	all, err := storedImages(ctx, h, builder)
	if err != nil {
		return nil, err
	}
	var unused []projectimage.Stored
	now := time.Now()
	for _, image := range projectimage.Unused(all, needed) {
		if opts.Filter.Matches(image, now) {
			unused = append(unused, image)
		}
	}
	switch {
	case len(unused) == 0:
		h.Report("There is nothing to remove")
		return nil, nil
	case opts.DryRun:
		h.Report(fmt.Sprintf("Would remove %s:", counted(unused)))
		return namesOf(unused), nil
	}
	if err := agreeToPrune(ctx, h, unused, opts.Force); err != nil {
		return nil, err
	}
	done, err := builder.Prune(ctx, unused)
	for _, image := range done.Kept {
		h.Report(fmt.Sprintf("Left %s alone: %s", image.Name(), image.Why))
	}
	freed := ""
	if done.Freed > 0 {
		freed = ", which freed " + units.HumanSize(float64(done.Freed))
	}
	h.Report("Removed " + counted(done.Removed) + freed)
	return namesOf(done.Removed), err
}

// neededImages are the tags that the current scope would use.
func neededImages(ctx context.Context, h host.Host, opts PruneOptions) ([]string, error) {
	if opts.All {
		return nil, nil
	}
	h.Confirm = nil // the one question is what to remove
	s, err := findImageScope(ctx, h, opts.Overrides)
	if err == nil {
		var needed []string
		if needed, err = projectimage.Needs(s.req); err == nil {
			return needed, nil
		}
	}
	return nil, fmt.Errorf("which images this project needs is unknown, so nothing was removed (with --all, none of them is kept): %w", err)
}

// agreeToPrune asks the user, if need be.
func agreeToPrune(ctx context.Context, h host.Host, unused []projectimage.Stored, force bool) error {
	if force {
		return nil
	}
	if h.Confirm == nil {
		return fmt.Errorf("nobody can be asked whether to remove %s: see them with --dry-run, or remove them with --force", counted(unused))
	}
	for _, image := range unused {
		h.Report(fmt.Sprintf("%s (%s)", strings.Join(image.Names(), ", "), units.HumanSize(float64(image.Size))))
	}
	yes, err := h.Confirm(ctx, fmt.Sprintf("Remove %s?", counted(unused)))
	if err == nil && !yes {
		err = errors.New("nothing was removed")
	}
	return err
}

// namesOf returns all names of images.
func namesOf(images []projectimage.Stored) []string {
	var names []string
	for _, image := range images {
		names = append(names, image.Names()...)
	}
	return names
}

// counted says how many images there are.
func counted(images []projectimage.Stored) string {
	if len(images) == 1 {
		return "1 image"
	}
	return fmt.Sprintf("%d images", len(images))
}
