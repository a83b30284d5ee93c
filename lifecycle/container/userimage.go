package container

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

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// userMappedImage returns the ID of an image in which the user has a name and owns the
// home directory. An image without them gets a layer with them, once. An image that
// needs no change is recorded.
func (d *Driver) userMappedImage(ctx context.Context, image, user string) (string, error) {
	uid, gid, _ := strings.Cut(user, ":")
	res, err := d.API.ImageInspect(ctx, image)
	if err != nil {
		return "", fmt.Errorf("inspecting the image %s: %w", image, err)
	}
	_, digest, _ := strings.Cut(res.ID, ":")
	record := filepath.Join(d.StateDir, "images", strings.Join([]string{digest, uid, gid}, "-"))
	if _, err := os.Stat(record); err == nil {
		return res.ID, nil
	}
	tag := fmt.Sprintf("docker-ralph/fitted:%.12s-%s-%s-home", digest, uid, gid)
	mapped, err := d.API.ImageInspect(ctx, tag)
	if err == nil {
		return mapped.ID, nil
	}
	if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("inspecting the image %s: %w", tag, err)
	}
	id, err := d.mapUser(ctx, image, tag, uid, gid)
	switch {
	case err != nil:
		return "", fmt.Errorf("adding the user %s to the image %s: %w", user, image, err)
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
func (d *Driver) mapUser(ctx context.Context, image, tag, uid, gid string) (id string, err error) {
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:           image,
			Entrypoint:      []string{"/bin/sh"},
			Labels:          map[string]string{labelCreatedBy: createdBy},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.removeContainer(context.WithoutCancel(ctx), made.ID)) }()
	named, err := d.nameUser(ctx, made.ID, uid, gid)
	if err != nil {
		return "", err
	}
	owned, err := d.chownHome(ctx, made.ID, uid, gid)
	if err != nil || !named && !owned {
		return "", err
	}
	committed, err := d.API.ContainerCommit(ctx, made.ID, client.ContainerCommitOptions{NoPause: true})
	if err != nil {
		return "", err
	}
	return d.tagMapped(ctx, committed.ID, tag)
}

// tagMapped tags an image and returns its ID, or that of the image which another process
// has tagged. With containerd's image store, a tag is missing while it is moved, so it
// is tried again.
func (d *Driver) tagMapped(ctx context.Context, id, tag string) (string, error) {
	for tries := 10; ; tries-- {
		other, err := d.API.ImageInspect(ctx, tag)
		if err == nil {
			return other.ID, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", err
		}
		if _, err = d.API.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: tag}); err == nil {
			return id, nil
		}
		if tries == 0 || ctx.Err() != nil {
			return "", err
		}
	}
}

// createFromMapped creates a container from a mapped image. Another process can replace
// the image at the same time, so it is looked up again.
func (d *Driver) createFromMapped(ctx context.Context, spec lifecycle.Spec, user string, options client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	for tries := 3; ; tries-- {
		made, err := d.API.ContainerCreate(ctx, options)
		if err == nil {
			return made, nil
		}
		if tries == 0 || !errdefs.IsNotFound(err) {
			return made, explainCreate(spec, err)
		}
		if options.Config.Image, err = d.userMappedImage(ctx, spec.Image, user); err != nil {
			return made, err
		}
	}
}

// nameUser ensures that the user and the group have a name, which git, ssh, npm and
// others require. The image's agent user is renumbered; an image without one gets a new
// entry. It reports whether anything was changed.
func (d *Driver) nameUser(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	for name, entry := range map[string]string{
		"passwd": fmt.Sprintf("agent:x:%s:%s::%s:/bin/sh", uid, gid, Home),
		"group":  fmt.Sprintf("agent:x:%s:", gid),
	} {
		header, content, err := d.readFile(ctx, id, path.Join("/etc", name))
		if err != nil {
			return changed, err
		}
		wanted := setEntry(string(content), entry)
		if wanted == string(content) {
			continue
		}
		changed = true
		var archive bytes.Buffer
		if err := writeTar(&archive, tarFile{name: name, content: []byte(wanted), mode: header.Mode}); err != nil {
			return changed, err
		}
		_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/etc", Content: &archive})
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
func (d *Driver) chownHome(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	owner, errU := strconv.Atoi(uid)
	group, errG := strconv.Atoi(gid)
	if err := errors.Join(errU, errG); err != nil {
		return false, err
	}
	header, _, err := d.readFile(ctx, id, Home)
	switch {
	case errdefs.IsNotFound(err):
		return true, d.createHome(ctx, id, owner, group)
	case err != nil || header.Uid == owner:
		return false, err
	}
	res, err := d.API.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: Home})
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", Home, err)
	}
	defer func() { _ = res.Content.Close() }()
	archive, w := io.Pipe()
	go func() { _ = w.CloseWithError(changeOwner(res.Content, w, owner, group)) }()
	defer func() { _ = archive.Close() }()
	_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path.Dir(Home), Content: archive})
	if err != nil {
		return false, fmt.Errorf("changing the owner of %s to %s: %w", Home, uid, err)
	}
	return true, nil
}

// createHome creates the home directory in an image without one.
func (d *Driver) createHome(ctx context.Context, id string, uid, gid int) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(Home, "/") + "/", Mode: 0o755, Uid: uid, Gid: gid})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: &archive})
	if err != nil {
		return fmt.Errorf("creating %s: %w", Home, err)
	}
	return nil
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
