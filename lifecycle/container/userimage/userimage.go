// Package userimage adds the user of the host to images, under whose ID agents run.
package userimage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// Home is the home directory of the agent's user in sandboxes, a volume filled from the
// image.
const Home = "/home/agent"

// Mapper maps users in the images of an engine.
type Mapper struct {
	API engine.API
	// StateDir is the directory of the records of images that need no change.
	StateDir string
}

// Map returns the ID of an image in which the user, UID:GID, has a name and owns the home
// directory. An image without them gets a layer with them, once. An image that
// needs no change is recorded.
func (m Mapper) Map(ctx context.Context, image, user string) (string, error) {
	uid, gid, _ := strings.Cut(user, ":")
	res, err := m.API.ImageInspect(ctx, image)
	if err != nil {
		return "", fmt.Errorf("inspecting image %s: %w", image, err)
	}
	_, digest, _ := strings.Cut(res.ID, ":")
	record := filepath.Join(m.StateDir, "images", strings.Join([]string{digest, uid, gid}, "-"))
	if _, err := os.Stat(record); err == nil {
		return res.ID, nil
	}
	tag := fmt.Sprintf("docker-ralph/user-mapped:%.12s-%s-%s-home", digest, uid, gid)
	mapped, err := m.API.ImageInspect(ctx, tag)
	switch {
	case err == nil && isFrom(mapped, res.ID):
		return mapped.ID, nil
	case err != nil && !errdefs.IsNotFound(err):
		return "", fmt.Errorf("inspecting image %s: %w", tag, err)
	}
	id, err := m.mapUser(ctx, res.ID, tag, uid, gid)
	switch {
	case err != nil:
		return "", fmt.Errorf("adding the user %s to image %s: %w", user, image, err)
	case id != "":
		return id, nil
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		return "", err
	}
	return res.ID, os.WriteFile(record, nil, 0o600)
}

// mapUser adds the user to a container that is never started, and commits it if anything
// had to be changed. It returns the ID, because the tag can be missing for a moment.
func (m Mapper) mapUser(ctx context.Context, image, tag, uid, gid string) (id string, err error) {
	created, err := m.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:           image,
			Entrypoint:      []string{"/bin/sh"},
			Labels:          map[string]string{engine.LabelCreatedBy: engine.CreatedBy, LabelOrigin: image},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, engine.RemoveContainer(context.WithoutCancel(ctx), m.API, created.ID)) }()
	named, err := m.nameUser(ctx, created.ID, uid, gid)
	if err != nil {
		return "", err
	}
	owned, err := m.chownHome(ctx, created.ID, uid, gid)
	if err != nil || !named && !owned {
		return "", err
	}
	committed, err := m.API.ContainerCommit(ctx, created.ID, client.ContainerCommitOptions{NoPause: true})
	if err != nil {
		return "", err
	}
	return m.tagMapped(ctx, committed.ID, image, tag)
}

// LabelOrigin is the label with the ID of the image that the user was added to. The tag has a
// part of it only. A container of that very image is one in which a user was being added.
const LabelOrigin = engine.LabelPrefix + "origin"

// isFrom reports whether the user was added to the image with the ID origin.
func isFrom(mapped client.ImageInspectResult, origin string) bool {
	return mapped.Config != nil && mapped.Config.Labels[LabelOrigin] == origin
}

// tagMapped tags an image and returns its ID, or that of the image which another process
// has tagged. With containerd's image store, a tag is missing while it is moved, so it
// is tried again.
func (m Mapper) tagMapped(ctx context.Context, id, origin, tag string) (string, error) {
	for tries := 10; ; tries-- {
		other, err := m.API.ImageInspect(ctx, tag)
		if err == nil && isFrom(other, origin) {
			return other.ID, nil
		}
		if err != nil && !errdefs.IsNotFound(err) {
			return "", err
		}
		if _, err = m.API.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: tag}); err == nil {
			return id, nil
		}
		if tries == 0 || ctx.Err() != nil {
			return "", err
		}
	}
}

// nameUser ensures that the user and the group have a name, which git, ssh, npm and
// others require. The image's agent user is renumbered; an image without one gets a new
// entry. It reports whether anything was changed.
func (m Mapper) nameUser(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	for name, entry := range map[string]string{
		"passwd": fmt.Sprintf("agent:x:%s:%s::%s:/bin/sh", uid, gid, Home),
		"group":  fmt.Sprintf("agent:x:%s:", gid),
	} {
		header, content, err := engine.ReadFile(ctx, m.API, id, path.Join("/etc", name))
		if err != nil {
			return changed, err
		}
		wanted := setEntry(string(content), entry)
		if wanted == string(content) {
			continue
		}
		changed = true
		var archive bytes.Buffer
		if err := engine.WriteTar(&archive, engine.File{Name: name, Content: []byte(wanted), Mode: header.Mode}); err != nil {
			return changed, err
		}
		_, err = m.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/etc", Content: &archive})
		if err != nil {
			return changed, fmt.Errorf("writing /etc/%s: %w", name, err)
		}
	}
	return changed, nil
}

// setEntry adds an entry to a file in the format of passwd(5), unless its number has
// one. An entry of the same name is replaced.
func setEntry(content, entry string) string {
	fields := strings.Split(entry, ":")
	var kept strings.Builder
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		has := strings.Split(line, ":")
		if len(has) > 2 && has[2] == fields[2] {
			return content
		}
		if has[0] != fields[0] {
			kept.WriteString(line + "\n")
		}
	}
	return kept.String() + entry + "\n"
}

// chownHome makes the user the owner of the home directory in a container, and reports
// whether anything was changed. Engines fill home volumes from the image, with owners,
// so this is done once per image.
func (m Mapper) chownHome(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	owner, errU := strconv.Atoi(uid)
	group, errG := strconv.Atoi(gid)
	if err := errors.Join(errU, errG); err != nil {
		return false, err
	}
	header, _, err := engine.ReadFile(ctx, m.API, id, Home)
	switch {
	case errdefs.IsNotFound(err):
		return true, engine.CreateDir(ctx, m.API, id, "/", strings.TrimPrefix(Home, "/"), owner, group)
	case err != nil || header.Uid == owner:
		return false, err
	}
	res, err := m.API.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: Home})
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", Home, err)
	}
	defer func() { _ = res.Content.Close() }()
	archive, w := io.Pipe()
	go func() { _ = w.CloseWithError(changeOwner(res.Content, w, owner, group)) }()
	defer func() { _ = archive.Close() }()
	_, err = m.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path.Dir(Home), Content: archive})
	if err != nil {
		return false, fmt.Errorf("changing the owner of %s to %s: %w", Home, uid, err)
	}
	return true, nil
}

// changeOwner copies a tar archive with another owner for all entries.
func changeOwner(from io.Reader, to io.Writer, uid, gid int) error {
	in, out := tar.NewReader(from), tar.NewWriter(to)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		header.Uid, header.Gid, header.Uname, header.Gname = uid, gid, "", ""
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}
