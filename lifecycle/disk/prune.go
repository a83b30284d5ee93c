package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// PruneOptions are the options of [Prune].
type PruneOptions struct {
	// All also removes images that no sandbox uses.
	All bool
	// DiscardCommits also removes sandboxes and git directories with commits that cannot be
	// fetched.
	DiscardCommits bool
	// DryRun removes nothing.
	DryRun bool
	// Force skips the confirmation.
	Force bool
}

// Prune removes what is reclaimable, once the user agrees, and returns what it removed or,
// with DryRun, would remove: a type and a name each.
func Prune(ctx context.Context, h host.Host, opts PruneOptions) ([]string, error) {
	inv, err := takeInventory(ctx, h, opts.DiscardCommits)
	if err != nil {
		return nil, err
	}
	var chosen []Item
	for _, item := range inv.items {
		switch {
		case item.Reclaimable && (opts.All || !item.optional):
			chosen = append(chosen, item)
		case item.Reason == onlyCopy && item.Type == Sandboxes, item.Reason == onlyCopy && item.Type == Volumes && item.sandbox == "":
			h.Warn(hint.Wrap(fmt.Errorf("keeping %s: %s does not exist, and %s", item, item.Path, item.Reason), "discard them with --discard-commits"))
		}
	}
	switch {
	case len(chosen) == 0:
		h.Report("Nothing to remove")
		return nil, nil
	case opts.DryRun:
		h.Report("Would remove:")
		return names(chosen), nil
	}
	if err := confirm(ctx, h, chosen, opts.Force); err != nil {
		return nil, err
	}
	removed, err := inv.prune(ctx, chosen)
	h.Report("Total reclaimed space: " + units.HumanSize(float64(total(removed))))
	return names(removed), err
}

// String is the item in a list.
func (i Item) String() string {
	if i.Type == State {
		return "state " + i.Name
	}
	return map[Type]string{Sandboxes: "sandbox", Proxies: "proxy", Networks: "network", Volumes: "volume", Images: "image"}[i.Type] + " " + i.Name
}

func names(items []Item) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.String())
	}
	return all
}

func total(items []Item) (size int64) {
	for _, item := range items {
		if item.Size != nil {
			size += *item.Size
		}
	}
	return size
}

func confirm(ctx context.Context, h host.Host, chosen []Item, force bool) error {
	if force {
		return nil
	}
	if h.Confirm == nil {
		return hint.Wrap(fmt.Errorf("refusing to remove %s without confirmation", host.Count(len(chosen), "item")), "preview with --dry-run, or pass --force")
	}
	var list strings.Builder
	for _, item := range chosen {
		_, _ = fmt.Fprintf(&list, "  %s: %s\n", item, item.Reason)
	}
	yes, err := h.Confirm(ctx, "This removes:\n"+list.String()+"Remove them?")
	if err == nil && !yes {
		err = errors.New("canceled")
	}
	return err
}

// prune removes items, in their order. What is part of a sandbox that was kept is kept.
func (inv *inventory) prune(ctx context.Context, chosen []Item) (removed []Item, err error) {
	var errs []error
	kept := map[string]bool{}
	for _, item := range chosen {
		if item.Type != Sandboxes {
			continue
		}
		i := slices.IndexFunc(inv.located, func(l host.Located) bool { return l.Sandbox.Name == item.Name && l.Sandbox.OtherClient == "" })
		if err := manage.RemoveSandbox(ctx, inv.host, inv.located[i], inv.discard); err != nil {
			kept[item.Name] = true
			errs = append(errs, err)
		}
	}
	swept, err := inv.sweep(ctx, chosen)
	errs = append(errs, err)
	pruned, err := inv.pruneImages(ctx, chosen)
	errs = append(errs, err)
	for _, item := range chosen {
		switch {
		case item.sandbox != "" && kept[item.sandbox], ctx.Err() != nil:
			continue
		case item.orphan && !slices.Contains(swept, item.Name), item.image != nil && !pruned[item.image.ID]:
			continue
		case item.remove != nil:
			err := item.remove(ctx)
			if errdefs.IsConflict(err) {
				inv.host.Report(fmt.Sprintf("Kept the %s: it is in use", item))
				continue
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removed = append(removed, item)
	}
	return removed, errors.Join(append(errs, ctx.Err())...)
}

// sweep removes the resources of sandboxes that do not exist.
func (inv *inventory) sweep(ctx context.Context, chosen []Item) ([]string, error) {
	if !slices.ContainsFunc(chosen, func(i Item) bool { return i.orphan }) {
		return nil, nil
	}
	swept, err := inv.driver.SweepOrphans(ctx, run.OrphanGrace)
	if errdefs.IsConflict(err) || errdefs.IsPermissionDenied(err) {
		err = nil // another command is removing them
	}
	return swept, err
}

// pruneImages removes agent and project images, and returns the IDs of those removed.
func (inv *inventory) pruneImages(ctx context.Context, chosen []Item) (removed map[string]bool, err error) {
	var list []projectimage.Stored
	for _, item := range chosen {
		if item.image != nil {
			list = append(list, *item.image)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	api, err := inv.host.Engine()
	if err != nil {
		return nil, err
	}
	done, err := inv.host.Builder(api).Prune(ctx, list)
	for _, image := range done.Kept {
		inv.host.Report(fmt.Sprintf("Kept %s: %s", image.Name(), image.Why))
	}
	removed = map[string]bool{}
	for _, image := range done.Removed {
		removed[image.ID] = true
	}
	return removed, err
}
