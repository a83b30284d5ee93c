package container

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/moby/moby/client"
)

// maxFile bounds the files that are read out of a sandbox.
const maxFile = 1 << 20

// readFile reads a file of a container through the engine, which is many
// times faster than a process that would have to be started inside. Of a
// folder it returns the header alone.
func (d *Driver) readFile(ctx context.Context, id, name string) (*tar.Header, []byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what follows the header of a folder is not read
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
		return nil, nil, fmt.Errorf("reading %s in the sandbox: it is larger than %d bytes", name, maxFile)
	}
	return header, content, nil
}

// nameUser makes sure that the user and the group have a name: git, ssh, npm
// and others do not work for a number without one. The image's own agent user
// is renumbered; an image without one gets a new entry.
func (d *Driver) nameUser(ctx context.Context, id, uid, gid string) error {
	for name, entry := range map[string]string{
		"passwd": fmt.Sprintf("agent:x:%s:%s::%s:/bin/sh", uid, gid, Home),
		"group":  fmt.Sprintf("agent:x:%s:", gid),
	} {
		header, content, err := d.readFile(ctx, id, path.Join("/etc", name))
		if err != nil {
			return err
		}
		changed := setEntry(string(content), entry)
		if changed == string(content) {
			continue
		}
		var archive bytes.Buffer
		if err := writeTar(&archive, tarFile{name, []byte(changed), header.Mode}); err != nil {
			return err
		}
		_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/etc", Content: &archive})
		if err != nil {
			return fmt.Errorf("writing /etc/%s in the sandbox: %w", name, err)
		}
	}
	return nil
}

// setEntry puts an entry into a file in the format of passwd(5), unless its
// number has one already. An entry of the same name is replaced.
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

// ownHome gives the home directory to the user. The sandbox itself never has
// the right to do so: a helper container that sees nothing but the home
// directory does it, and only where the image's user is another one.
func (d *Driver) ownHome(ctx context.Context, id, uid, gid, helper string) error {
	header, _, err := d.readFile(ctx, id, Home)
	if err != nil {
		return err
	}
	if strconv.Itoa(header.Uid) == uid && strconv.Itoa(header.Gid) == gid {
		return nil
	}
	volume, err := d.homeVolume(ctx, id)
	if err != nil {
		return err
	}
	return d.runHelper(ctx, helper, []string{"_own", uid, gid, Home}, volume, "CHOWN", "DAC_OVERRIDE")
}
