// Package disk lists what docker-ralph keeps on a machine, and removes what belongs to
// worktrees and repositories that no longer exist, or to former versions.
package disk

import (
	"context"
	"fmt"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Type is the type of an [Item].
type Type string

// The types, in the order in which items are listed and removed.
const (
	Sandboxes Type = "Sandboxes"
	Proxies   Type = "Proxies"
	Networks  Type = "Networks"
	Volumes   Type = "Volumes"
	Images    Type = "Images"
	State     Type = "State" // directories and files of the host
)

func types() []Type { return []Type{Sandboxes, Proxies, Networks, Volumes, Images, State} }

// Item is something that docker-ralph keeps. Its names in JSON are part of the command's
// interface.
type Item struct {
	Type        Type   `json:"type"`
	Name        string `json:"name"`
	Kind        string `json:"kind"`       // container, sbx, cache, git, agent, …
	Repository  string `json:"repository"` // as in its origin; empty if it is shared or unknown
	Path        string `json:"path"`       // directory of the worktree or repository; empty if unknown
	Size        *int64 `json:"size"`       // bytes; nil if unknown
	Active      bool   `json:"active"`
	Reclaimable bool   `json:"reclaimable"`
	OtherClient string `json:"other_client"` // the client that created it; empty for this one, or if it is shared
	Reason      string `json:"reason"`       // why it is reclaimable, or why not although its worktree does not exist

	// sandbox is the existing sandbox that it is part of. It can only be removed after that.
	sandbox string
	// optional is only removed with --all.
	optional bool
	// orphan is removed by SweepOrphans.
	orphan bool
	image  *projectimage.Stored
	// remove removes it; nil if it is removed with its sandbox, with the orphans, or as an image.
	remove func(ctx context.Context) error
}

// Summary sums up the items of a type. Its names in JSON are part of the command's interface.
type Summary struct {
	Type        Type  `json:"type"`
	Total       int   `json:"total"`
	Active      int   `json:"active"`
	Size        int64 `json:"size"`        // bytes
	Reclaimable int64 `json:"reclaimable"` // bytes
}

// Summarize sums up items by their type.
func Summarize(items []Item) []Summary {
	var all []Summary
	for _, t := range types() {
		s := Summary{Type: t}
		for _, item := range items {
			if item.Type != t {
				continue
			}
			s.Total++
			if item.Active {
				s.Active++
			}
			if item.Size != nil {
				s.Size += *item.Size
				if item.Reclaimable {
					s.Reclaimable += *item.Size
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// Usage lists what docker-ralph keeps on this machine. What cannot be listed is missing, with
// a warning.
func Usage(ctx context.Context, h host.Host) ([]Item, error) {
	inv, err := takeInventory(ctx, h, false)
	return inv.items, err
}

// inventory is what docker-ralph keeps.
type inventory struct {
	host    host.Host
	discard bool // commits that were not fetched
	items   []Item

	located []host.Located
	driver  *container.Driver // nil if the engine cannot be reached
	owners  map[string]host.Owner
	here    host.Here
}

func takeInventory(ctx context.Context, h host.Host, discard bool) (*inventory, error) {
	inv := &inventory{host: h, discard: discard}
	connected := h.Connect()
	var err error
	if inv.owners, err = h.Owners(); err != nil {
		return inv, err
	}
	inv.here, _ = h.Here(ctx) // only protects a worktree that was moved
	var failed error
	if inv.located, failed = h.Sandboxes(ctx, connected); failed != nil {
		h.Warn(fmt.Errorf("some sandboxes may be missing: %w", failed))
	}
	api, err := connected()
	if err == nil && !engine.ConnectionLost(failed) {
		inv.driver = h.ContainerDriver(api)
	}
	inv.addSandboxes(ctx)
	if inv.driver != nil {
		for _, add := range []func(context.Context) error{inv.addResources, inv.addImages(api), inv.addPrograms} {
			err := add(ctx)
			if err != nil && ctx.Err() == nil {
				h.Warn(err)
			}
			if engine.ConnectionLost(err) { // the others would say the same
				break
			}
		}
	}
	if err := inv.addState(ctx); err != nil {
		h.Warn(err)
	}
	slices.SortStableFunc(inv.items, func(a, b Item) int {
		return slices.Index(types(), a.Type) - slices.Index(types(), b.Type)
	})
	return inv, ctx.Err()
}

// addSandboxes adds the sandboxes. Those of worktrees that do not exist are reclaimable. The worktrees of other
// clients may be on other machines, and so may those of sandboxes without a label that were not created here.
func (inv *inventory) addSandboxes(ctx context.Context) {
	sizes := inv.containerSizes(ctx)
	for _, l := range inv.located {
		sb := l.Sandbox
		item := Item{
			Type: Sandboxes, Name: sb.Name, Kind: l.Backend.Kind, Repository: sb.Scope.Repo, Path: sb.Root,
			Active: sb.State == lifecycle.Running, sandbox: sb.Name,
		}
		item.setOther(sb.OtherClient)
		if size, known := sizes[sb.ID]; known {
			item.Size = &size
		}
		if sb.OtherClient == "" && inv.host.CreatedBy(sb.Name) != "" && inv.gone(sb.Root) && !inv.host.Moved(sb, inv.here.Worktree) {
			switch {
			case sb.State == lifecycle.Unknown:
				item.Reason = "its state is unknown"
			case !inv.discard && !commits.Fetched(ctx, inv.host, sb):
				item.Reason = onlyCopy
			default:
				item.Reclaimable, item.Reason = true, doesNotExist(sb.Root)
			}
		}
		inv.items = append(inv.items, item)
	}
}

// setOther sets the client that created the item, if it is another one.
func (i *Item) setOther(client string) {
	if client != "" {
		i.OtherClient, i.Reason = client, "it belongs to another client, "+client
	}
}

func doesNotExist(dir string) string { return dir + " does not exist" }

// gone reports whether a recorded directory does not exist.
func (inv *inventory) gone(dir string) bool { return dir != "" && host.Missing(dir) }

// containerSizes returns what containers have written, with their unnamed volumes. The
// microVM programs report no sizes.
func (inv *inventory) containerSizes(ctx context.Context) map[string]int64 {
	sizes, err := host.Sizes(ctx, inv.located)
	if err != nil && ctx.Err() == nil {
		inv.host.Warn(fmt.Errorf("reading the disk usage of sandboxes: %w", err))
	}
	return sizes
}

// sandboxItem is the item of this client's sandbox of that name; nil if there is none.
func (inv *inventory) sandboxItem(name string) *Item {
	i := slices.IndexFunc(inv.items, func(item Item) bool {
		return item.Type == Sandboxes && item.Name == name && item.OtherClient == ""
	})
	if i < 0 {
		return nil
	}
	return &inv.items[i]
}
