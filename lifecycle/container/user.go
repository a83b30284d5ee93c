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

// fitUser makes a sandbox fit for the user that its commands run as. Whether
// anything has to be done depends on the image alone, so an image that needed
// nothing is noted and not looked into again.
func (d *Driver) fitUser(ctx context.Context, sb lifecycle.Sandbox, helper string) error {
	uid, gid, ok := strings.Cut(sb.User, ":")
	if !ok {
		return hint.Wrap(errors.New("it does not say which user it is for"), "run the command again with --recreate")
	}
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	note := d.fitPath(res.Container.Image, uid, gid)
	if _, err := os.Stat(note); err == nil {
		return nil
	}
	named, err := d.nameUser(ctx, sb.ID, uid, gid)
	if err != nil {
		return err
	}
	owned, err := d.ownHome(ctx, res.Container, uid, gid, helper)
	if err != nil || named || owned {
		return err
	}
	return writeNote(note)
}

// fitPath is the note that an image fits a user.
func (d *Driver) fitPath(image, uid, gid string) string {
	_, digest, _ := strings.Cut(image, ":")
	return filepath.Join(d.StateDir, "images", strings.Join([]string{digest, uid, gid}, "-"))
}

func writeNote(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// nameUser makes sure that the user and the group have a name: git, ssh, npm
// and others do not work for a number without one. The image's own agent user
// is renumbered; an image without one gets a new entry. It reports whether
// anything had to be changed.
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
		if err := writeTar(&archive, tarFile{name, []byte(wanted), header.Mode}); err != nil {
			return changed, err
		}
		_, err = d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/etc", Content: &archive})
		if err != nil {
			return changed, fmt.Errorf("writing /etc/%s in the sandbox: %w", name, err)
		}
	}
	return changed, nil
}

// ownHome gives the home directory to the user, and reports whether it had to.
// The sandbox itself never has the right to do so: a helper container that
// sees nothing but the home directory does it.
func (d *Driver) ownHome(ctx context.Context, c container.InspectResponse, uid, gid, helper string) (changed bool, err error) {
	header, _, err := d.readFile(ctx, c.ID, Home)
	if err != nil {
		return false, err
	}
	if strconv.Itoa(header.Uid) == uid {
		return false, nil // whatever its group: the owner may do everything
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && m.Destination == Home {
			home := mount.Mount{Type: mount.TypeVolume, Source: m.Name, Target: Home}
			return true, d.runHelper(ctx, helper, []string{"_own", uid, gid, Home}, home, "CHOWN", "DAC_OVERRIDE")
		}
	}
	return false, errors.New("it has no volume at " + Home)
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
