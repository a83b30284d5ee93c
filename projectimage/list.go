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

// Stored is an image of docker ralph on the engine.
type Stored struct {
	ID      string
	Tags    []string // sorted; none if another image has its tag now
	Foreign []string // tags of others
	Kind    string   // "agent", "project", or "user-mapped" for an image with the user added
	Agent   string   // empty if unknown
	Project string   // as in the tag; empty for an agent image
	Base    string   // reference of the image below
	BaseID  string   // ID of that image at the time; empty if unknown
	Digest  string   // of all that it was built from; empty if unknown
	Created time.Time
	Size    int64    // bytes, with shared layers
	UsedBy  []string // containers of it, or of an image with the user added to it; sorted
	Origin  string   // short ID of the image that the user was added to; empty for others
}

// Name returns the tag of the image, or else its ID.
func (s Stored) Name() string { return s.Names()[0] }

// Names returns the tags of the image that a user knows, or else its ID.
func (s Stored) Names() []string {
	names := slices.DeleteFunc(slices.Clone(s.Tags), func(tag string) bool { return strings.HasPrefix(tag, sbxRepository+":") })
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
	// tagPrefix begins the name of each image that is built.
	tagPrefix = "agent-loop-sandbox-"
	// sbxRepository is the repository of images that are passed to sbx.
	sbxRepository = "docker-ralph/sandbox"
	// userMapped is the repository of images to which the container driver has added the
	// user, with a name and a home.
	userMapped     = "docker-ralph/user-mapped"
	kindUserMapped = "user-mapped"
)

// List returns the images of docker ralph on the engine, sorted by name. Images that others
// have built on them have the same labels, so the names are checked too.
func (b *Builder) List(ctx context.Context) ([]Stored, error) {
	var built, others client.ImageListResult
	var users map[string][]string
	group, groupCtx := errgroup.WithContext(ctx)
	// Two narrow lists, because some engines compute the size of each image that they list.
	group.Go(func() (err error) { built, err = b.listed(groupCtx, "label", labelAgent); return err })
	group.Go(func() (err error) { others, err = b.listed(groupCtx, "reference", userMapped); return err })
	group.Go(func() (err error) { users, err = b.containers(groupCtx); return err })
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

// listed returns the images with our label that match a filter.
func (b *Builder) listed(ctx context.Context, filter, value string) (client.ImageListResult, error) {
	result, err := b.Engine.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelCreatedBy+"="+createdBy).Add(filter, value),
	})
	if err != nil {
		err = fmt.Errorf("listing images: %w", err)
	}
	return result, err
}

// useOrigins makes the users of a user-mapped image users of its origin.
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

// containers returns the names of all containers by the ID of their image.
func (b *Builder) containers(ctx context.Context) (map[string][]string, error) {
	result, err := b.Engine.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", canceledOr(ctx, err))
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

// Find returns the ID, age, size and users of any image.
func (b *Builder) Find(ctx context.Context, ref string) (_ Stored, found bool, _ error) {
	image, found, err := b.inspect(ctx, ref)
	if err != nil || !found {
		return Stored{}, false, err
	}
	users, err := b.containers(ctx)
	if err != nil {
		return Stored{}, false, err
	}
	created, _ := time.Parse(time.RFC3339Nano, image.Created) // some images have none
	return Stored{ID: image.ID, Created: created, Size: image.Size, UsedBy: users[image.ID]}, true, nil
}

// newStored reads labels and names.
func newStored(summary image.Summary) Stored {
	stored := Stored{
		ID:      summary.ID,
		Kind:    summary.Labels[labelKind],
		Agent:   summary.Labels[labelAgent],
		Project: summary.Labels[labelProject],
		Base:    summary.Labels[labelBase],
		BaseID:  summary.Labels[labelBaseID],
		Digest:  summary.Labels[labelDigest],
		Created: time.Unix(summary.Created, 0),
		Size:    summary.Size,
	}
	for _, tag := range summary.RepoTags {
		if origin := originOf(tag); origin != "" {
			stored.Kind, stored.Origin, stored.Base, stored.BaseID = kindUserMapped, origin, origin, ""
		}
	}
	for _, tag := range summary.RepoTags {
		switch {
		case tag == "<none>:<none>": // of old engines
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

// named reports whether a tag is one that docker ralph gives the image.
func (s Stored) named(tag string) bool {
	repository, version, _ := strings.Cut(tag, ":")
	switch {
	case repository == sbxRepository:
		return version == shortID(s.ID)
	case s.Kind == kindUserMapped:
		return originOf(tag) != ""
	case s.Agent == "":
		return false
	}
	name := tagPrefix + s.Agent
	if s.Kind == kindProject {
		name += "-" + s.Project
	}
	return repository == name && versionTag().MatchString(version)
}

// userMappedTag matches the name of a user-mapped image.
var userMappedTag = lazyregexp.New(`^` + userMapped + `:([0-9a-f]{12})-[0-9]+-[0-9]+-home$`)

// originOf returns the short ID of the origin in the name of a user-mapped image, "" for other
// names.
func originOf(tag string) string {
	if match := userMappedTag().FindStringSubmatch(tag); match != nil {
		return match[1]
	}
	return ""
}

// builtPath is the record of an image that was built here, which identifies it after another
// image has taken its tag.
func (b *Builder) builtPath(id string) string {
	return filepath.Join(b.LockDir, "image-"+strings.ReplaceAll(id, ":", "-")+".built")
}

func (b *Builder) recordBuilt(image Image) error {
	if err := os.WriteFile(b.builtPath(image.ID), nil, 0o600); err != nil {
		return fmt.Errorf("recording image %q: %w", image.Ref, err)
	}
	return nil
}

func (b *Builder) wasBuilt(id string) bool {
	_, err := os.Stat(b.builtPath(id))
	return err == nil
}

func (b *Builder) forgetBuilt(id string) error {
	if err := os.Remove(b.builtPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of an image: %w", err)
	}
	return nil
}
