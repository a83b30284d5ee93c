package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
)

// Volume contains ralph for all sandboxes of an engine, each version in a separate
// directory. Sandboxes mount it read-only.
const Volume = "ralph-guest"

// ImageTag returns the tag of the image that contains a version of ralph.
func ImageTag(p guestbin.Payload) string { return ralphRepository + ":" + p.Short() }

// Ralph ensures that this version of ralph is on the volume.
func (i *Installer) Ralph(ctx context.Context) (guestbin.Payload, error) {
	i.ralphMu.Lock()
	defer i.ralphMu.Unlock()
	if i.ralph != nil {
		return *i.ralph, nil
	}
	p, err := guestbin.For(i.Arch)
	if err != nil {
		return guestbin.Payload{}, err
	}
	installed, err := i.installed(ctx, p)
	if err != nil {
		return guestbin.Payload{}, fmt.Errorf("checking for ralph on the engine: %w", err)
	}
	if !installed {
		err := i.install(ctx, p)
		if errdefs.IsNotFound(err) {
			// Another process, with another lock directory, has installed it and removed
			// the temporary image.
			if installed, checkErr := i.installed(ctx, p); installed || checkErr != nil {
				err = checkErr
			}
		}
		if err != nil {
			return guestbin.Payload{}, fmt.Errorf("installing ralph on the engine: %w", err)
		}
	}
	i.ralph = &p
	return p, nil
}

// installed checks for the volume and for the image's tag, which is set after the volume
// was filled. A tag that is older than the volume belongs to an earlier volume that was
// pruned.
func (i *Installer) installed(ctx context.Context, p guestbin.Payload) (bool, error) {
	volume, volumeErr := i.API.VolumeInspect(ctx, Volume, client.VolumeInspectOptions{})
	image, imageErr := i.API.ImageInspect(ctx, ImageTag(p))
	for _, err := range []error{volumeErr, imageErr} {
		if errdefs.IsNotFound(err) {
			return false, nil
		}
	}
	if err := errors.Join(volumeErr, imageErr); err != nil {
		return false, err
	}
	created, err := time.Parse(time.RFC3339, volume.Volume.CreatedAt)
	tagged := image.Metadata.LastTagTime
	return err != nil || tagged.IsZero() || !tagged.Before(created), nil
}

// loadingSuffix ends the tag of the image from which the volume is being filled.
const loadingSuffix = "-loading"

func (i *Installer) install(ctx context.Context, p guestbin.Payload) error {
	tag := ImageTag(p)
	loading := tag + loadingSuffix
	program, err := p.Binary()
	if err != nil {
		return err
	}
	if err := i.loadImage(ctx, loading, p.Arch(), wire.Program, program); err != nil {
		return err
	}
	labels := map[string]string{engine.LabelCreatedBy: engine.CreatedBy}
	if _, err := i.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: Volume, Labels: labels}); err != nil {
		return err
	}
	if err := i.copyToVolume(ctx, loading); err != nil {
		return err
	}
	if _, err := i.API.ImageTag(ctx, client.ImageTagOptions{Source: loading, Target: tag}); err != nil {
		return err
	}
	// Another process may have removed it, or be using it.
	_, err = i.API.ImageRemove(ctx, loading, client.ImageRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return err
	}
	i.removeReplaced(ctx, tag)
	return nil
}

// copyToVolume runs the program in an image, as root, with the volume mounted writable.
func (i *Installer) copyToVolume(ctx context.Context, image string) (err error) {
	created, err := i.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:           image,
			User:            "0:0",
			Entrypoint:      []string{"/" + wire.Program, "_install", wire.MountPoint},
			Labels:          map[string]string{engine.LabelCreatedBy: engine.CreatedBy},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			CapDrop:        []string{"ALL"},
			SecurityOpt:    []string{"no-new-privileges"},
			LogConfig:      engine.BoundedLog(),
			Mounts: []mount.Mount{{
				Type: mount.TypeVolume, Source: Volume, Target: wire.MountPoint, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
			}},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.RemoveContainer(context.WithoutCancel(ctx), i.API, created.ID)) }()
	wait := i.API.ContainerWait(ctx, created.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := i.API.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	select {
	case err := <-wait.Error:
		return err
	case res := <-wait.Result:
		if res.StatusCode != 0 {
			return fmt.Errorf("exit code %d: %s", res.StatusCode, i.logTail(ctx, created.ID))
		}
		return nil
	}
}

// logTail returns the last output of a container in one line.
func (i *Installer) logTail(ctx context.Context, id string) string {
	res, err := i.API.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "5"})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Close() }()
	var out strings.Builder
	_ = engine.Demultiplex(&out, &out, res)
	return strings.Join(strings.Fields(out.String()), " ")
}
