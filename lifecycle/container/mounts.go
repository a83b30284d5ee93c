package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// tooWide are folders that hold much more than one project. Projects below
// them are fine.
func tooWide() []string {
	return []string{
		"/home", "/media", "/mnt", "/opt", "/root", "/snap", "/srv", "/tmp", "/usr", "/usr/local", "/usr/src", "/var",
		"/var/cache", "/var/lib", "/var/log", "/var/tmp", "/Applications", "/Library", "/Users", "/Volumes", "/private", "/private/tmp", "/private/var",
	}
}

// ofTheSystem are folders in which nothing is anybody's project.
func ofTheSystem() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
		"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/var/run", "/var/lib/docker", "/var/lib/containerd",
		"/System", "/private/etc", "/private/var/db", "/private/var/run",
	}
}

// ofSecrets are folders, below the home directory, that hold keys.
func ofSecrets() []string {
	return []string{
		".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".password-store", ".claude", ".codex", ".gemini",
		".config/gcloud", ".config/gh", ".config/glab-cli", ".config/containers", ".local/share/keyrings", "Library/Keychains",
	}
}

// checkMounts refuses work trees that would hand over more than a project, or
// something else than they seem to be.
func checkMounts(spec lifecycle.Spec) error {
	home, _ := os.UserHomeDir()
	for _, dir := range append([]string{spec.Root}, spec.Mounts...) {
		if !strings.HasPrefix(dir, "/") {
			return fmt.Errorf("the work tree %s cannot be mounted at the same path in a Linux container: on Windows, run docker ralph inside WSL", dir)
		}
		if strings.ContainsFunc(dir, unicode.IsControl) {
			return fmt.Errorf("the path %q has control characters, which cannot be told apart in logs and lists: rename the folder", dir)
		}
		if filepath.Clean(dir) != dir {
			return fmt.Errorf("the path %q is not in its plain form: write %q", dir, filepath.Clean(dir))
		}
		if err := checkPlace(dir, home); err != nil {
			return err
		}
		if err := checkLinks(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkPlace refuses a folder for where it is.
func checkPlace(dir, home string) error {
	if dir == "/" || home != "" && below(home, dir) {
		return fmt.Errorf("%s would give your whole home directory to the agent: move the repository into a folder of its own", dir)
	}
	if below(dir, wire.MountPoint) || below(wire.MountPoint, dir) {
		return fmt.Errorf("%s cannot be mounted: sandboxes have ralph at %s", dir, wire.MountPoint)
	}
	if slices.Contains(tooWide(), dir) {
		return fmt.Errorf("%s would give much more than a project to the agent: move the repository into a folder of its own", dir)
	}
	for _, system := range ofTheSystem() {
		if below(dir, system) || below(system, dir) {
			return fmt.Errorf("%s belongs to the system (%s), and an agent shall not change it: move the repository to where your projects are", dir, system)
		}
	}
	if home == "" {
		return nil
	}
	for _, name := range ofSecrets() {
		secrets := filepath.Join(home, name)
		if _, err := os.Lstat(secrets); below(dir, secrets) || below(secrets, dir) && err == nil {
			return fmt.Errorf("%s would give the keys in %s to the agent: move the repository into a folder of its own", dir, secrets)
		}
	}
	return nil
}

// below reports whether a path is another one, or inside it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// checkLinks refuses a path of which any part is a symbolic link: it can lead
// somewhere else by the time it is mounted. What is not there is for the engine
// to complain about.
func checkLinks(dir string) error {
	for at := dir; at != "/"; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at %s before it is mounted: %w", at, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link, and what it leads to could change before it is mounted: go to the folder itself", at)
		}
	}
	return nil
}

// readOnlyBind lets a sandbox see a folder of the host, and put nothing in its
// place.
func readOnlyBind(dir, target string) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: dir, Target: target, ReadOnly: true,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
}

// compareMounts looks whether a container has the mounts that were meant. An
// image can add volumes, but nothing of the host.
func (d *Driver) compareMounts(ctx context.Context, id string, meant []mount.Mount) error {
	res, err := d.API.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("looking at what is mounted: %w", err)
	}
	found := map[string]bool{}
	for _, has := range res.Container.Mounts {
		i := slices.IndexFunc(meant, func(m mount.Mount) bool { return m.Target == has.Destination })
		switch {
		case i < 0 && has.Type == mount.TypeVolume:
			continue
		case i < 0 || meant[i].Type != has.Type || meant[i].ReadOnly == has.RW || has.Type == mount.TypeBind && has.Source != meant[i].Source:
			return fmt.Errorf("the engine mounts %s at %s, which nobody asked for", has.Source, has.Destination)
		}
		found[has.Destination] = true
	}
	for _, m := range meant {
		if !found[m.Target] {
			return fmt.Errorf("the engine does not mount %s", m.Target)
		}
	}
	return nil
}
