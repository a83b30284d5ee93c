package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
)

// moveHint is the advice for directories that cannot be exposed to an agent.
const moveHint = "move the repository into a separate directory"

// broadDirs are directories that contain much more than one project. Projects below
// them are allowed.
func broadDirs() []string {
	return []string{
		"/home", "/media", "/mnt", "/opt", "/root", "/snap", "/srv", "/tmp", "/usr", "/usr/local", "/usr/src", "/var",
		"/var/cache", "/var/lib", "/var/log", "/var/tmp", "/Applications", "/Library", "/Users", "/Volumes", "/private", "/private/tmp", "/private/var",
	}
}

// systemDirs are directories that contain no projects.
func systemDirs() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
		"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/var/run", "/var/lib/docker", "/var/lib/containerd",
		"/System", "/private/etc", "/private/var/db", "/private/var/run",
	}
}

// secretDirs are directories with keys, relative to the home directory.
func secretDirs() []string {
	return []string{
		".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".password-store", ".claude", ".codex", ".gemini",
		".config/gcloud", ".config/gh", ".config/glab-cli", ".config/containers", ".local/share/keyrings", "Library/Keychains",
	}
}

// checkMounts rejects worktrees that would expose more than a project, or that are
// reached through links.
func checkMounts(spec lifecycle.Spec) error {
	home, _ := os.UserHomeDir()
	for _, dir := range append([]string{spec.Root}, spec.Mounts...) {
		if !strings.HasPrefix(dir, "/") {
			return hint.Wrap(fmt.Errorf("worktree %s cannot be mounted at the same path in a Linux container", dir), "on Windows, run docker ralph inside WSL")
		}
		if strings.ContainsFunc(dir, unicode.IsControl) {
			return hint.Wrap(fmt.Errorf("the path %q contains control characters", dir), "rename the directory")
		}
		if filepath.Clean(dir) != dir {
			return hint.Wrap(fmt.Errorf("path %q is not normalized", dir), "use %q", filepath.Clean(dir))
		}
		if err := checkLocation(dir, home); err != nil {
			return err
		}
		if err := checkLinks(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkLocation rejects directories by their location.
func checkLocation(dir, home string) error {
	if dir == "/" || home != "" && below(home, dir) {
		return hint.Wrap(fmt.Errorf("mounting %s would expose your home directory to the agent", dir), moveHint)
	}
	if below(dir, wire.MountPoint) || below(wire.MountPoint, dir) {
		return fmt.Errorf("%s cannot be mounted: %s is reserved in sandboxes", dir, wire.MountPoint)
	}
	if slices.Contains(broadDirs(), dir) {
		return hint.Wrap(fmt.Errorf("mounting %s would expose more than a project to the agent", dir), moveHint)
	}
	for _, system := range systemDirs() {
		if below(dir, system) || below(system, dir) {
			return hint.Wrap(fmt.Errorf("mounting %s would expose the system directory %s to the agent", dir, system), moveHint)
		}
	}
	if home == "" {
		return nil
	}
	for _, name := range secretDirs() {
		secrets := filepath.Join(home, name)
		if _, err := os.Lstat(secrets); below(dir, secrets) || below(secrets, dir) && err == nil {
			return hint.Wrap(fmt.Errorf("mounting %s would expose the keys in %s to the agent", dir, secrets), moveHint)
		}
	}
	return nil
}

// below reports whether path is dir, or inside it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// checkLinks rejects a path with symbolic links, whose targets could change before it
// is mounted. Missing directories are reported by the engine.
func checkLinks(dir string) error {
	for at := dir; at != "/"; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("checking %s: %w", at, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return hint.Wrap(fmt.Errorf("%s is a symbolic link, whose target could change before it is mounted", at), "change to the directory itself")
		}
	}
	return nil
}

// readOnlyBind is a read-only bind mount of a host directory.
func readOnlyBind(dir, target string) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: dir, Target: target, ReadOnly: true,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
}

// compareMounts checks that a container has the expected mounts. An image can add
// volumes, but nothing of the host.
func compareMounts(mounts []container.MountPoint, expectedMounts []mount.Mount) error {
	found := map[string]bool{}
	for _, has := range mounts {
		i := slices.IndexFunc(expectedMounts, func(m mount.Mount) bool { return m.Target == has.Destination })
		switch {
		case i < 0 && has.Type == mount.TypeVolume:
			continue
		case i < 0 || expectedMounts[i].Type != has.Type || expectedMounts[i].ReadOnly == has.RW || has.Type == mount.TypeBind && has.Source != expectedMounts[i].Source:
			return fmt.Errorf("unexpected mount of %s at %s", has.Source, has.Destination)
		}
		found[has.Destination] = true
	}
	for _, m := range expectedMounts {
		if !found[m.Target] {
			return fmt.Errorf("missing mount at %s", m.Target)
		}
	}
	return nil
}
