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

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// UnsuitableError says what an image lacks that was given to be used as it is.
type UnsuitableError struct {
	Image string
	Lacks []string // sentences, with what to do
}

func (e *UnsuitableError) Error() string {
	return fmt.Sprintf("no sandbox can be made from image %q:\n  %s\n"+
		"add what is missing with a Dockerfile that begins with FROM %s, or give another image with --image IMAGE",
		e.Image, strings.Join(e.Lacks, "\n  "), e.Image)
}

// InvalidParameter marks the error as the user's.
func (*UnsuitableError) InvalidParameter() {}

// defaultPath is the PATH of an image that sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// checkGiven makes sure that a sandbox can be made from an image that is used as
// it is. The verdict on a good one is noted: its ID stands for its content.
//
// The image's own user does not matter. Commands run as whoever calls docker
// ralph, or as root on a rootless engine; that user gets a name in the image's
// passwd and group, which have to exist.
func (b *Builder) checkGiven(ctx context.Context, ref string, image client.ImageInspectResult) error {
	note := filepath.Join(b.LockDir, "image-"+strings.ReplaceAll(image.ID, ":", "-")+".suits")
	if _, err := os.Stat(note); err == nil {
		return nil
	}
	lacks, err := b.lacking(ctx, image)
	if err != nil {
		return fmt.Errorf("looking into image %q: %w", ref, canceledOr(ctx, err))
	}
	if len(lacks) > 0 {
		return &UnsuitableError{Image: ref, Lacks: lacks}
	}
	err = os.MkdirAll(b.LockDir, 0o700)
	if err == nil {
		err = os.WriteFile(note, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting that image %q was looked into: %w", ref, err)
	}
	return nil
}

// lacking looks into an image through a container that is never started.
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
	for _, program := range []struct{ name, why string }{
		{"sh", "agents, checks and the shell agent's steps run commands with it. Install a shell, such as the package dash or busybox"},
		{"git", "the work is committed with it. Install the package git"},
	} {
		found, err := within.program(ctx, search, program.name)
		if err != nil {
			return nil, err
		}
		if !found {
			lacks = append(lacks, fmt.Sprintf("it has no %s on its PATH (%s): %s.", program.name, termsafe.Visible(search), program.why))
		}
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		mode, found, err := within.stat(ctx, file)
		if err != nil {
			return nil, err
		}
		if !found || !mode.IsRegular() {
			lacks = append(lacks, fmt.Sprintf("it has no file %s: the user that commands run as gets a name there. An empty file will do.", file))
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

// content is what is in a container.
type content struct {
	engine Engine
	id     string
}

// program reports whether there is an executable file of that name.
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

// maxLinks is how many symbolic links are followed from one to the next. The
// engine follows those that are folders by itself.
const maxLinks = 8

// stat returns the mode of what a path leads to.
func (c content) stat(ctx context.Context, name string) (_ fs.FileMode, found bool, _ error) {
	for range maxLinks {
		result, err := c.engine.ContainerStatPath(ctx, c.id, client.ContainerStatPathOptions{Path: name})
		if errdefs.IsNotFound(err) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, fmt.Errorf("looking for %s: %w", name, err)
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
