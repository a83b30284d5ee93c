package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/moby/moby/client"
)

// maxFile bounds the size of files read from a sandbox.
const maxFile = 1 << 20

// ReadFile reads a file of a container through the engine, which is faster than an
// exec. For a directory, it returns the header only.
func ReadFile(ctx context.Context, api API, id, name string) (*tar.Header, []byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the content of a directory is not read
	res, err := api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s in the sandbox: %w", name, err)
	}
	defer func() { _ = res.Content.Close() }()
	archive := tar.NewReader(res.Content)
	header, err := archive.Next()
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s in the sandbox: %w", name, err)
	}
	content, err := io.ReadAll(io.LimitReader(archive, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s in the sandbox: %w", name, err)
	}
	if len(content) > maxFile {
		return nil, nil, fmt.Errorf("reading %s in the sandbox: larger than %d bytes", name, maxFile)
	}
	return header, content, nil
}

// File is a file of a tar archive, or a directory if its name ends with a slash.
type File struct {
	Name    string
	Content []byte
	Mode    int64
	UID     int // and GID
}

// WriteTar writes a tar archive.
func WriteTar(w io.Writer, files ...File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.Name, Size: int64(len(f.Content)), Mode: f.Mode, Uid: f.UID, Gid: f.UID, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(f.Content); err != nil {
			return err
		}
	}
	return t.Close()
}

// CreateDir creates a directory of a user in a directory of a container. One that exists
// is given to the user.
func CreateDir(ctx context.Context, api API, id, parent, name string, uid, gid int) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Uid: uid, Gid: gid})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if _, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: parent, Content: &archive}); err != nil {
		return fmt.Errorf("creating %s for the user %d: %w", path.Join(parent, name), uid, err)
	}
	return nil
}
