package container

import (
	"archive/tar"
	"context"
	"fmt"
	"io"

	"github.com/moby/moby/client"
)

// maxFile bounds the size of files read from a sandbox.
const maxFile = 1 << 20

// readFile reads a file of a container through the engine, which is faster than an
// exec. For a directory, it returns the header only.
func (d *Driver) readFile(ctx context.Context, id, name string) (*tar.Header, []byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the content of a directory is not read
	res, err := d.API.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
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
