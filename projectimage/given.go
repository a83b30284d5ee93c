package projectimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// defaultPath is the PATH of an image that sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// checkSuitable checks what a sandbox needs of a user's image, and records the ID of a
// suitable one. Commands run as the user of docker ralph, or as root on a rootless engine,
// who gets a name in the image's passwd and group.
func (b *Builder) checkSuitable(ctx context.Context, ref string, image client.ImageInspectResult) error {
	record := filepath.Join(b.LockDir, "image-"+strings.ReplaceAll(image.ID, ":", "-")+".suits")
	if _, err := os.Stat(record); err == nil {
		return nil
	}
	lacks, err := b.lacking(ctx, image)
	if err != nil {
		return fmt.Errorf("inspecting image %q: %w", ref, canceledOr(ctx, err))
	}
	if len(lacks) > 0 {
		return hint.Wrap(fmt.Errorf("image %q cannot be used for a sandbox: %s", ref, strings.Join(lacks, ", ")),
			"add what is missing in a Dockerfile that starts with \"FROM %s\", or use another image with --image IMAGE", ref)
	}
	err = os.MkdirAll(b.LockDir, 0o700)
	if err == nil {
		err = os.WriteFile(record, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording that image %q is suitable: %w", ref, err)
	}
	return nil
}

// lacking inspects an image through a container that is never started.
func (b *Builder) lacking(ctx context.Context, image client.ImageInspectResult) (lacks []string, err error) {
	made, err := b.Engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: image.ID, Entrypoint: []string{"sh"}, Labels: map[string]string{labelCreatedBy: createdBy}, NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		_, rmErr := b.Engine.ContainerRemove(context.WithoutCancel(ctx), made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if rmErr != nil && !errdefs.IsNotFound(rmErr) {
			err = errors.Join(err, rmErr)
		}
	}()
	within := content{b.Engine, made.ID}
	search := searchPath(image)
	for _, program := range []string{"sh", "git"} {
		found, err := within.program(ctx, search, program)
		if err != nil {
			return nil, err
		}
		if !found {
			lacks = append(lacks, fmt.Sprintf("no %s in PATH (%s)", program, termsafe.Visible(search)))
		}
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		mode, found, err := within.stat(ctx, file)
		if err != nil {
			return nil, err
		}
		if !found || !mode.IsRegular() {
			lacks = append(lacks, "no file "+file)
		}
	}
	return lacks, nil
}

// searchPath returns the image's PATH.
func searchPath(image client.ImageInspectResult) string {
	if image.Config != nil {
		for _, variable := range image.Config.Env {
			if value, ok := strings.CutPrefix(variable, "PATH="); ok {
				return value
			}
		}
	}
	return defaultPath
}

// content is the file system of a container.
type content struct {
	engine Engine
	id     string
}

// program reports whether an executable is in PATH.
func (c content) program(ctx context.Context, search, name string) (bool, error) {
	for dir := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(dir) {
			continue
		}
		mode, found, err := c.stat(ctx, path.Join(dir, name))
		if err != nil {
			return false, err
		}
		if found && mode.IsRegular() && mode&0o111 != 0 {
			return true, nil
		}
	}
	return false, nil
}

// maxLinks bounds a chain of symbolic links to files; the engine follows those to directories.
const maxLinks = 8

// stat returns the mode of a file, following links.
func (c content) stat(ctx context.Context, name string) (_ fs.FileMode, found bool, _ error) {
	for range maxLinks {
		result, err := c.engine.ContainerStatPath(ctx, c.id, client.ContainerStatPathOptions{Path: name})
		if errdefs.IsNotFound(err) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, fmt.Errorf("inspecting %s: %w", name, err)
		}
		if result.Stat.Mode&fs.ModeSymlink == 0 {
			return result.Stat.Mode, true, nil
		}
		target := result.Stat.LinkTarget
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = target
	}
	return 0, false, nil
}
