package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// shadowsMax limits the packages of a repository whose node_modules are shadowed.
const shadowsMax = 32

// shadowModules mounts a separate node_modules in a container if the host has another platform:
// its binary packages do not run there.
func shadowModules(spec *lifecycle.Spec, cfg config.Effective) error {
	on := cfg.Sandbox.ShadowModules == config.ShadowOn
	if cfg.Sandbox.ShadowModules == config.ShadowAuto {
		on = runtime.GOOS != "linux" // the engine has the same architecture
	}
	if !on {
		return nil
	}
	for _, dir := range packages(spec.Root) {
		modules := filepath.Join(dir, "node_modules")
		if err := makeDir(modules, spec.User); err != nil {
			return fmt.Errorf("creating a mount point for the sandbox's node_modules: %w", err)
		}
		spec.Shadows = append(spec.Shadows, modules)
	}
	return nil
}

// packages returns the directories of a worktree with a package.json, down to the third level.
// Symbolic links are not followed.
func packages(root string) []string {
	var found []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return filepath.SkipDir // unreadable
		case entry.IsDir() && path != root && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir() && strings.Count(rel, string(filepath.Separator)) >= 3:
			return filepath.SkipDir
		case entry.Type().IsRegular() && entry.Name() == "package.json":
			found = append(found, filepath.Dir(path))
		}
		return nil
	})
	slices.Sort(found)
	return found[:min(len(found), shadowsMax)]
}

// makeDir creates a directory for the user, which the engine would create for root.
func makeDir(dir string, user lifecycle.User) error {
	switch err := os.Mkdir(dir, 0o755); {
	case err == nil:
		if err := os.Chown(dir, user.UID, user.GID); err != nil && !errors.Is(err, syscall.EPERM) && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		return nil
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory: remove it, or set sandbox.shadow_node_modules to %q", dir, config.ShadowOff)
	}
	return err
}
