package projectimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Stored is an image on the engine that docker ralph has built.
type Stored struct {
	ID      string
	Tags    []string // sorted; none when another image has taken its name
	Foreign []string // names that somebody else has given it
	Kind    string   // "agent", "project", or "fitted" for one of the two in which a user got a name
	Agent   string   // empty for a fitted image of unknown origin
	Project string   // name of the project's folder, as it is in the tag; empty for an agent's image
	Base    string   // reference of the image that it is built on
	BaseID  string   // the engine's ID of that image at the time; empty when it is not known
	Created time.Time
	Size    int64    // bytes, with the layers that other images have too
	UsedBy  []string // containers that were made from it, or from a fitted image of it, sorted
	Origin  string   // beginning of the ID of the image that it is fitted from; empty for others
}

// Name is what a user knows the image by: its tag, or else its ID.
func (s Stored) Name() string { return s.Names()[0] }

// Names returns the tags that a user knows the image by, or else its ID.
func (s Stored) Names() []string {
	names := slices.DeleteFunc(slices.Clone(s.Tags), func(tag string) bool { return strings.HasPrefix(tag, handedOver+":") })
	if len(names) == 0 {
		names = []string{shortID(s.ID)}
	}
	return names
}

// shortID is an ID as Docker shows it.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}

const (
	// tagPrefix begins the name of every image that is built here.
	tagPrefix = "agent-loop-sandbox-"
	// handedOver is what images are called while they are given to sbx.
	handedOver = "docker-ralph/sandbox"
	// fitted is what images are called in which the container driver has given
	// the user a name and a home. Any image can be the origin.
	fitted     = "docker-ralph/fitted"
	kindFitted = "fitted"
)

// List returns the images on the engine that docker ralph has built, by name.
// Images that others have built on them carry the same labels, so the names
// count too.
func (b *Builder) List(ctx context.Context) ([]Stored, error) {
	var built, others client.ImageListResult
	var users map[string][]string
	group, groupCtx := errgroup.WithContext(ctx)
	// Some engines add up the size of each image that they list. There are more
	// of ours that are none of these.
	group.Go(func() (err error) { built, err = b.listed(groupCtx, "label", labelAgent); return err })
	group.Go(func() (err error) { others, err = b.listed(groupCtx, "reference", fitted); return err })
	group.Go(func() (err error) { users, err = b.users(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return nil, canceledOr(ctx, err)
	}
	var all []Stored
	for _, summary := range slices.Concat(built.Items, others.Items) {
		stored := newStored(summary)
		ours := len(stored.Tags) > 0 || len(stored.Foreign) == 0 && b.wasBuilt(stored.ID)
		if !ours || slices.ContainsFunc(all, func(s Stored) bool { return s.ID == stored.ID }) {
			continue
		}
		stored.UsedBy = slices.Clone(users[stored.ID])
		all = append(all, stored)
	}
	useOrigins(all)
	slices.SortFunc(all, func(x, y Stored) int { return strings.Compare(x.Name(), y.Name()) })
	return all, nil
}

// listed returns those of docker ralph's images that a filter lets through.
func (b *Builder) listed(ctx context.Context, filter, value string) (client.ImageListResult, error) {
	result, err := b.Engine.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelCreatedBy+"="+createdBy).Add(filter, value),
	})
	if err != nil {
		err = fmt.Errorf("listing the images of docker ralph: %w", err)
	}
	return result, err
}

// useOrigins has who uses a fitted image use its origin too.
func useOrigins(all []Stored) {
	for c, child := range all {
		for i, origin := range all {
			if child.Origin != "" && child.Origin == shortID(origin.ID) {
				all[c].Base, all[c].BaseID = origin.Name(), origin.ID
				all[i].UsedBy = append(origin.UsedBy, child.UsedBy...)
				slices.Sort(all[i].UsedBy)
			}
		}
	}
}

// users returns the names of all containers, also stopped ones and those of
// others, by the ID of their image.
func (b *Builder) users(ctx context.Context) (map[string][]string, error) {
	result, err := b.Engine.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("asking which images are in use: %w", canceledOr(ctx, err))
	}
	users := make(map[string][]string)
	for _, c := range result.Items {
		name := shortID(c.ID)
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		users[c.ImageID] = append(users[c.ImageID], name)
	}
	for _, names := range users {
		slices.Sort(names)
	}
	return users, nil
}

// Find returns an image of any origin, with its ID, age, size and users only.
func (b *Builder) Find(ctx context.Context, ref string) (_ Stored, found bool, _ error) {
	image, found, err := b.inspect(ctx, ref)
	if err != nil || !found {
		return Stored{}, false, err
	}
	users, err := b.users(ctx)
	if err != nil {
		return Stored{}, false, err
	}
	created, _ := time.Parse(time.RFC3339Nano, image.Created) // some images do not say
	return Stored{ID: image.ID, Created: created, Size: image.Size, UsedBy: users[image.ID]}, true, nil
}

// newStored reads what labels and names say.
func newStored(summary image.Summary) Stored {
	stored := Stored{
		ID:      summary.ID,
		Kind:    summary.Labels[labelKind],
		Agent:   summary.Labels[labelAgent],
		Project: summary.Labels[labelProject],
		Base:    summary.Labels[labelBase],
		BaseID:  summary.Labels[labelBaseID],
		Created: time.Unix(summary.Created, 0),
		Size:    summary.Size,
	}
	if stored.Kind == "" { // the first versions did not say
		stored.Kind = kindAgent
	}
	for _, tag := range summary.RepoTags {
		if origin := fittedOf(tag); origin != "" {
			stored.Kind, stored.Origin, stored.Base, stored.BaseID = kindFitted, origin, origin, ""
		}
	}
	for _, tag := range summary.RepoTags {
		switch {
		case tag == "<none>:<none>": // how old engines say that there is none
		case stored.named(tag):
			stored.Tags = append(stored.Tags, tag)
		default:
			stored.Foreign = append(stored.Foreign, tag)
		}
	}
	slices.Sort(stored.Tags)
	return stored
}

// versionTag matches the part of our tags behind the colon.
var versionTag = lazyregexp.New(`^v[0-9a-f]{8}$`)

// named reports whether docker ralph would give the image this name.
func (s Stored) named(tag string) bool {
	repository, version, _ := strings.Cut(tag, ":")
	switch {
	case repository == handedOver:
		return version == shortID(s.ID)
	case s.Kind == kindFitted:
		return fittedOf(tag) != ""
	case s.Agent == "":
		return false
	}
	name := tagPrefix + s.Agent
	if s.Kind == kindProject {
		name += "-" + s.Project
	}
	return repository == name && versionTag().MatchString(version)
}

// fittedTag matches the name of a fitted image.
var fittedTag = lazyregexp.New(`^` + fitted + `:([0-9a-f]{12})-[0-9]+-[0-9]+-home$`)

// fittedOf returns the beginning of the ID of the image that a fitted one was
// made from, "" for the name of another image.
func fittedOf(tag string) string {
	if match := fittedTag().FindStringSubmatch(tag); match != nil {
		return match[1]
	}
	return ""
}

// builtPath is the note that an image was built here. By it an image is known
// again whose name another one has taken.
func (b *Builder) builtPath(id string) string {
	return filepath.Join(b.LockDir, "image-"+strings.ReplaceAll(id, ":", "-")+".built")
}

func (b *Builder) noteBuilt(image Image) error {
	if err := os.WriteFile(b.builtPath(image.ID), nil, 0o600); err != nil {
		return fmt.Errorf("noting that image %q was built: %w", image.Ref, err)
	}
	return nil
}

func (b *Builder) wasBuilt(id string) bool {
	_, err := os.Stat(b.builtPath(id))
	return err == nil
}

func (b *Builder) forgetBuilt(id string) error {
	if err := os.Remove(b.builtPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting an image that is gone: %w", err)
	}
	return nil
}
