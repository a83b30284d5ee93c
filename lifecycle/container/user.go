package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// ensureUser ensures that the user of commands has a name and owns the home directory.
// That depends on the image only, so an image that needs no change is recorded.
func (d *Driver) ensureUser(ctx context.Context, sb lifecycle.Sandbox, helper string) error {
	uid, gid, ok := strings.Cut(sb.User, ":")
	if !ok {
		return hint.Wrap(errors.New("its user is unknown"), "run the command again with --recreate")
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	note := d.userNotePath(res.Container.Image, uid, gid)
	if _, err := os.Stat(note); err == nil {
		return nil
	}
	named, err := d.nameUser(ctx, sb.ID, uid, gid)
	if err != nil {
		return err
	}
	owned, err := d.ensureHomeOwner(ctx, res.Container, uid, gid, helper)
	if err != nil || named || owned {
		return err
	}
	return writeNote(note)
}

// userNotePath is the path of the record that an image needs no change for a user.
func (d *Driver) userNotePath(image, uid, gid string) string {
	_, digest, _ := strings.Cut(image, ":")
	return filepath.Join(d.StateDir, "images", strings.Join([]string{digest, uid, gid}, "-"))
}

func writeNote(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// nameUser ensures that the user and the group have a name, which git, ssh, npm and
// others require. The image's agent user is renumbered; an image without one gets a new
// entry. It reports whether anything was changed.
func (d *Driver) nameUser(ctx context.Context, id, uid, gid string) (changed bool, err error) {
	for name, entry := range map[string]string{
		"passwd": fmt.Sprintf("agent:x:%s:%s::%s:/bin/sh", uid, gid, Home),
		"group":  fmt.Sprintf("agent:x:%s:", gid),
	} {
		header, content, err := d.readFile(ctx, id, path.Join("/etc", name))
		if err != nil {
			return changed, err
		}
		wanted := setEntry(string(content), entry)
		if wanted == string(content) {
			continue
		}
		changed = true
		var archive bytes.Buffer
		if err := writeTar(&archive, tarFile{name: name, content: []byte(wanted), mode: header.Mode}); err != nil {
			return changed, err
		}
		_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/etc", Content: &archive})
		if err != nil {
			return changed, fmt.Errorf("writing /etc/%s in the sandbox: %w", name, err)
		}
	}
	return changed, nil
}

// ensureHomeOwner makes the user the owner of the home directory, and reports whether
// anything was changed. A helper container with nothing but the home volume does that,
// because sandboxes have no capabilities.
func (d *Driver) ensureHomeOwner(ctx context.Context, c container.InspectResponse, uid, gid, helper string) (changed bool, err error) {
	header, _, err := d.readFile(ctx, c.ID, Home)
	if err != nil {
		return false, err
	}
	if strconv.Itoa(header.Uid) == uid {
		return false, nil // the group does not matter
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && m.Destination == Home {
			home := mount.Mount{Type: mount.TypeVolume, Source: m.Name, Target: Home}
			return true, d.runHelper(ctx, helper, []string{"_own", uid, gid, Home}, home, "CHOWN", "DAC_OVERRIDE")
		}
	}
	return false, errors.New("it has no volume at " + Home)
}

// setEntry adds an entry to a file in the format of passwd(5), unless its number has
// one. An entry of the same name is replaced.
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
