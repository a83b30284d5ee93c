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
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// fittedImage returns the image in which the user has a name and a home. The
// root file system of a sandbox that is read-only cannot be changed any more,
// not even before it is started: so an image in which the user has none gets a
// layer with them, once. It is named by its ID: that is the image that was looked
// at, and an engine that lists containers looks up what a name means now, for
// each of them.
func (d *Driver) fittedImage(ctx context.Context, spec lifecycle.Spec, user string) (string, error) {
	if !spec.ReadOnly {
		return spec.Image, nil
	}
	uid, gid, _ := strings.Cut(user, ":")
	res, err := d.API.ImageInspect(ctx, spec.Image)
	if err != nil {
		return "", fmt.Errorf("looking at the image %s: %w", spec.Image, err)
	}
	_, digest, _ := strings.Cut(res.ID, ":")
	tag := fmt.Sprintf("docker-ralph/fitted:%.12s-%s-%s-home", digest, uid, gid)
	named := d.fitPath(res.ID, uid, gid) + "-named"
	for _, note := range []string{d.fitPath(res.ID, uid, gid), named} {
		if _, err := os.Stat(note); err == nil {
			return res.ID, nil
		}
	}
	fitted, err := d.API.ImageInspect(ctx, tag)
	if err == nil {
		// It was made to fit: its sandboxes need not be looked into.
		return fitted.ID, writeNote(d.fitPath(fitted.ID, uid, gid))
	}
	if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("looking at the image %s: %w", tag, err)
	}
	made, err := d.fitImage(ctx, spec.Image, tag, uid, gid)
	switch {
	case err != nil:
		return "", fmt.Errorf("naming the user %s in the image %s: %w", user, spec.Image, err)
	case made != "":
		return made, nil
	}
	return res.ID, writeNote(named)
}

// fitImage names the user in a container that is never started, gives it the
// home directory, and makes an image of it if anything had to be changed. Its
// ID is returned, as the tag can be missing for a moment.
func (d *Driver) fitImage(ctx context.Context, image, tag, uid, gid string) (id string, err error) {
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
	given, err := d.giveHome(ctx, made.ID, uid, gid)
	if err != nil || !named && !given {
		return "", err
	}
	fitted, err := d.API.ContainerCommit(ctx, made.ID, client.ContainerCommitOptions{NoPause: true})
	if err != nil {
		return "", err
	}
	return d.tagFitted(ctx, fitted.ID, tag)
}

// tagFitted gives an image its tag and returns its ID, or the ID of the image
// that another dispatch has given the tag to. Engines with containerd's store
// take a tag away before they give it to another image, so one that is missing
// although it could not be given was being moved: by the time it is asked for
// again, that dispatch is through.
func (d *Driver) tagFitted(ctx context.Context, id, tag string) (string, error) {
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

// createFitted creates a container of a fitted image. Another dispatch that makes
// the same image at the same moment replaces it, so it is looked up again.
func (d *Driver) createFitted(ctx context.Context, spec lifecycle.Spec, user string, options client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	for tries := 3; ; tries-- {
		made, err := d.API.ContainerCreate(ctx, options)
		if err == nil {
			return made, nil
		}
		if tries == 0 || options.Config.Image == spec.Image || !errdefs.IsNotFound(err) {
			return made, explainCreate(spec, err)
		}
		if options.Config.Image, err = d.fittedImage(ctx, spec, user); err != nil {
			return made, err
		}
	}
}

// giveHome gives the home directory of a container to the user, and tells
// whether it had to. An engine fills the home volume of a sandbox with what the
// image has there, owners included, so this is done once and not for each.
func (d *Driver) giveHome(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	owner, errU := strconv.Atoi(uid)
	group, errG := strconv.Atoi(gid)
	if err := errors.Join(errU, errG); err != nil {
		return false, err
	}
	header, _, err := d.readFile(ctx, id, Home)
	switch {
	case errdefs.IsNotFound(err):
		return true, d.makeHome(ctx, id, owner, group)
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
		return false, fmt.Errorf("giving %s to the user %s: %w", Home, uid, err)
	}
	return true, nil
}

// makeHome makes the home directory in an image that has none.
func (d *Driver) makeHome(ctx context.Context, id string, uid, gid int) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(Home, "/") + "/", Mode: 0o755, Uid: uid, Gid: gid})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: &archive})
	if err != nil {
		return fmt.Errorf("making %s: %w", Home, err)
	}
	return nil
}

// changeOwner copies an archive, and everything in it gets another owner.
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
