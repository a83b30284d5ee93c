package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// guestVolume contains ralph for all sandboxes of an engine, each version in a separate
// directory. Sandboxes mount it read-only.
const guestVolume = "ralph-guest"

// guestTag returns the tag of the image that contains a version of ralph.
func guestTag(p guestbin.Payload) string { return "docker-ralph/guest:" + p.Short() }

// ensureGuest ensures that this version of ralph is on the volume. It checks once.
func (d *Driver) ensureGuest(ctx context.Context) (guestbin.Payload, error) {
	info, err := d.info(ctx)
	if err != nil {
		return guestbin.Payload{}, err
	}
	d.engine.guestMu.Lock()
	defer d.engine.guestMu.Unlock()
	if d.engine.guest != nil {
		return *d.engine.guest, nil
	}
	p, err := guestbin.For(info.Architecture)
	if err != nil {
		return guestbin.Payload{}, err
	}
	there, err := d.guestInstalled(ctx, p)
	if err != nil {
		return guestbin.Payload{}, fmt.Errorf("checking for ralph on the engine: %w", err)
	}
	if !there {
		err := d.installGuest(ctx, p, guestTag(p))
		if errdefs.IsNotFound(err) {
			// Another process, with another lock directory, has installed it and removed
			// the temporary image.
			if there, lookErr := d.guestInstalled(ctx, p); there || lookErr != nil {
				err = lookErr
			}
		}
		if err != nil {
			return guestbin.Payload{}, fmt.Errorf("installing ralph on the engine: %w", err)
		}
	}
	d.engine.guest = &p
	return p, nil
}

// guestInstalled checks for the volume and for the image's tag, which is set after the
// volume was filled. A tag that is older than the volume belongs to an earlier volume
// that was pruned.
func (d *Driver) guestInstalled(ctx context.Context, p guestbin.Payload) (bool, error) {
	volume, volumeErr := d.API.VolumeInspect(ctx, guestVolume, client.VolumeInspectOptions{})
	image, imageErr := d.API.ImageInspect(ctx, guestTag(p))
	for _, err := range []error{volumeErr, imageErr} {
		if errdefs.IsNotFound(err) {
			return false, nil
		}
	}
	if err := errors.Join(volumeErr, imageErr); err != nil {
		return false, err
	}
	made, err := time.Parse(time.RFC3339, volume.Volume.CreatedAt)
	tagged := image.Metadata.LastTagTime
	return err != nil || tagged.IsZero() || !tagged.Before(made), nil
}

func (d *Driver) installGuest(ctx context.Context, p guestbin.Payload, done string) error {
	loading := done + "-loading"
	program, err := p.Binary()
	if err != nil {
		return err
	}
	if err := d.loadImage(ctx, loading, p.Arch(), wire.Program, program); err != nil {
		return err
	}
	own := map[string]string{labelCreatedBy: createdBy}
	if _, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: guestVolume, Labels: own}); err != nil {
		return err
	}
	if err := d.runInstaller(ctx, loading); err != nil {
		return err
	}
	if _, err := d.API.ImageTag(ctx, client.ImageTagOptions{Source: loading, Target: done}); err != nil {
		return err
	}
	// Another process may have removed it, or be using it.
	_, err = d.API.ImageRemove(ctx, loading, client.ImageRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return err
	}
	d.replacePrograms(ctx, done)
	return nil
}

// runInstaller runs ralph with the volume mounted writable.
func (d *Driver) runInstaller(ctx context.Context, image string) error {
	return d.runHelper(ctx, image, []string{"_install", wire.MountPoint}, mount.Mount{
		Type: mount.TypeVolume, Source: guestVolume, Target: wire.MountPoint, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	})
}

// runHelper runs ralph as root in a new container without a network, with one volume
// and the given capabilities.
func (d *Driver) runHelper(ctx context.Context, image string, args []string, volume mount.Mount, caps ...string) (err error) {
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image:           image,
			User:            "0:0",
			Entrypoint:      append([]string{"/" + wire.Program}, args...),
			Labels:          map[string]string{labelCreatedBy: createdBy},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			CapDrop:        []string{"ALL"},
			CapAdd:         caps,
			SecurityOpt:    []string{"no-new-privileges"},
			LogConfig:      container.LogConfig{Type: "json-file"}, // overrides the engine's default, which may not be readable
			Mounts:         []mount.Mount{volume},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		_, rmErr := d.API.ContainerRemove(context.WithoutCancel(ctx), made.ID, client.ContainerRemoveOptions{Force: true})
		err = errors.Join(err, rmErr)
	}()
	wait := d.API.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := d.API.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	select {
	case err := <-wait.Error:
		return err
	case res := <-wait.Result:
		if res.StatusCode != 0 {
			return fmt.Errorf("exit code %d: %s", res.StatusCode, d.logTail(ctx, made.ID))
		}
		return nil
	}
}

// logTail returns the last output of a container in one line.
func (d *Driver) logTail(ctx context.Context, id string) string {
	res, err := d.API.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "5"})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Close() }()
	var out strings.Builder
	_ = demultiplex(&out, &out, res)
	return strings.Join(strings.Fields(out.String()), " ")
}
