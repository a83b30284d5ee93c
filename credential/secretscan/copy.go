package secretscan

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/moby/moby/client"
)

// copyTree copies the regular files of a worktree, without its git directory, to the
// scanner.
func (s Scanner) copyTree(ctx context.Context, id, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		archive := tar.NewWriter(w)
		err := errors.Join(packTree(archive, root), archive.Close())
		_ = w.CloseWithError(err)
		packed <- err
	}()
	_, err = s.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: target, Content: r})
	_ = r.CloseWithError(errors.New("the engine stopped reading"))
	if packErr := <-packed; packErr != nil {
		err = packErr
	}
	if err != nil {
		return fmt.Errorf("copying the worktree to the engine: %w", err)
	}
	return nil
}

// packTree writes the files of a worktree, which an agent can change meanwhile.
func packTree(archive *tar.Writer, root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == ".git" && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: info.Size(), ModTime: info.ModTime(), Format: tar.FormatPAX}); err != nil {
			return err
		}
		n, err := io.Copy(archive, io.LimitReader(f, info.Size()))
		if err == nil && n < info.Size() { // it was truncated meanwhile
			_, err = io.CopyN(archive, zeros{}, info.Size()-n)
		}
		return err
	})
}

// zeros is an endless input of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
