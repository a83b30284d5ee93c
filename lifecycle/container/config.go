package container

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// CopyConfig copies a directory with the user's agent settings into a sandbox with a clone,
// which mounts nothing of the host. The files belong to root, so that the agent cannot
// change them; name is that of the directory in dir.
func (d *Driver) CopyConfig(ctx context.Context, sb lifecycle.Sandbox, dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		archive := tar.NewWriter(w)
		err := errors.Join(archive.AddFS(root.FS()), archive.Close())
		_ = w.CloseWithError(err)
		packed <- err
	}()
	_, err = d.API.CopyToContainer(ctx, sb.ID, client.CopyToContainerOptions{DestinationPath: wire.ConfigPoint, Content: r})
	_ = r.CloseWithError(errors.New("the engine stopped reading"))
	if packErr := <-packed; packErr != nil && err != nil {
		err = packErr
	}
	if err != nil {
		return fmt.Errorf("copying %s to sandbox %s: %w", name, sb.Name, err)
	}
	return nil
}
