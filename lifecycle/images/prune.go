package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// PruneOptions are the options of [Prune].
type PruneOptions struct {
	Overrides config.Overrides
	// Filter selects among the unused images.
	Filter projectimage.Filter
	// All also removes what the current scope would use.
	All bool
	// DryRun removes nothing.
	DryRun bool
	// Force skips the confirmation.
	Force bool
}

// Prune removes the unused images of docker ralph, once the user agrees, and
// returns the names of those that it removed or, with DryRun, would remove.
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
	all, err := Stored(ctx, h, builder)
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
		h.Report("Nothing to remove")
		return nil, nil
	case opts.DryRun:
		h.Report(fmt.Sprintf("Would remove %s:", counted(unused)))
		return namesOf(unused), nil
	}
	if err := confirmPrune(ctx, h, unused, opts.Force); err != nil {
		return nil, err
	}
	done, err := builder.Prune(ctx, unused)
	for _, image := range done.Kept {
		h.Report(fmt.Sprintf("Kept %s: %s", image.Name(), image.Why))
	}
	freed := ""
	if done.Freed > 0 {
		freed = ", which freed " + units.HumanSize(float64(done.Freed))
	}
	h.Report("Removed " + counted(done.Removed) + freed)
	return namesOf(done.Removed), err
}

// neededImages returns the tags that the current scope would use.
func neededImages(ctx context.Context, h host.Host, opts PruneOptions) ([]string, error) {
	if opts.All {
		return nil, nil
	}
	h.Confirm = nil // ask only about the removal
	s, err := findImageScope(ctx, h, opts.Overrides)
	if err == nil {
		var needed []string
		if needed, err = projectimage.Needs(s.req); err == nil {
			return needed, nil
		}
	}
	return nil, hint.Wrap(fmt.Errorf("resolving the images of this project: %w", err), "remove them as well with --all")
}

func confirmPrune(ctx context.Context, h host.Host, unused []projectimage.Stored, force bool) error {
	if force {
		return nil
	}
	if h.Confirm == nil {
		return hint.Wrap(fmt.Errorf("refusing to remove %s without confirmation", counted(unused)), "preview with --dry-run, or pass --force")
	}
	for _, image := range unused {
		h.Report(fmt.Sprintf("%s (%s)", strings.Join(image.Names(), ", "), units.HumanSize(float64(image.Size))))
	}
	yes, err := h.Confirm(ctx, fmt.Sprintf("Remove %s?", counted(unused)))
	if err == nil && !yes {
		err = errors.New("canceled")
	}
	return err
}

func namesOf(images []projectimage.Stored) []string {
	var names []string
	for _, image := range images {
		names = append(names, image.Names()...)
	}
	return names
}

func counted(images []projectimage.Stored) string { return host.Count(len(images), "image") }
