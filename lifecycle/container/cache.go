package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// CacheDir is the directory of the repository's caches in sandboxes.
const CacheDir = "/ralph-cache"

// CacheVolume returns the name of a repository's cache volume, for the path in
// [lifecycle.Spec.Cache]. All its sandboxes share it, and it outlives them.
func CacheVolume(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return "ralph-cache-" + hex.EncodeToString(sum[:])[:12]
}

// OwnCacheVolume returns the name of the cache volume of a repository, such as "acme/shop", at a path
// where another one has been before: what that one left could be run.
func OwnCacheVolume(path, repo string) string { return CacheVolume(path + "\x00" + repo) }

// CacheVolumes returns the names that the cache volume of a repository at a path can have. Other clients can have
// a repository with the same path on the engine.
func (d *Driver) CacheVolumes(path, repo string) ([]string, error) {
	own, err := scopes.ClientID(d.StateDir)
	names := []string{CacheVolume(path), OwnCacheVolume(path, repo)}
	if own != "" {
		names = append(names, OwnCacheVolume(path, repo+"\x00"+own))
	}
	return names, err
}

// createCache ensures that the repository's cache volume exists, and returns its mount.
func (d *Driver) createCache(ctx context.Context, spec lifecycle.Spec, l map[string]string) ([]mount.Mount, error) {
	if spec.Cache == "" {
		return nil, nil
	}
	names, err := d.CacheVolumes(spec.Cache, spec.Scope.Repo)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		has, err := d.ensureCache(ctx, name, spec, l)
		if err != nil {
			return nil, err
		}
		if has[engine.LabelCreatedBy] != engine.CreatedBy || has[labelRoot] != spec.Cache {
			return nil, lifecycle.Foreign(name, "a volume")
		}
		if has[labelRepo] == spec.Scope.Repo && otherClient(has, l[engine.LabelClient]) == "" {
			l[labelCache] = name
			return []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: CacheDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}, nil
		}
	}
	return nil, lifecycle.Foreign(names[len(names)-1], "a volume")
}

// ensureCache creates a cache volume if it does not exist, and returns its labels.
func (d *Driver) ensureCache(ctx context.Context, name string, spec lifecycle.Spec, l map[string]string) (map[string]string, error) {
	_, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{
		engine.LabelCreatedBy: engine.CreatedBy, engine.LabelRole: RoleCache, labelRepo: spec.Scope.Repo, labelRoot: spec.Cache, labelVersion: spec.Version,
		engine.LabelClient: l[engine.LabelClient], labelClientName: l[labelClientName],
	}})
	if err != nil {
		return nil, fmt.Errorf("creating volume %s: %w", name, err)
	}
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("inspecting volume %s: %w", name, err)
	}
	return res.Volume.Labels, nil // VolumeCreate does not change an existing volume
}

// prepareDirs creates the user's directories on the volumes of a new sandbox.
func (d *Driver) prepareDirs(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	u, g, _ := strings.Cut(sb.User, ":")
	uid, errU := strconv.Atoi(u)
	gid, errG := strconv.Atoi(g)
	if err := errors.Join(errU, errG); err != nil {
		return err
	}
	if spec.Cache == "" {
		return nil
	}
	dir := userCacheDir(uid)
	return engine.CreateDir(ctx, d.API, sb.ID, path.Dir(dir), path.Base(dir), uid, gid)
}

// userCacheDir returns the directory of a user's caches. Users do not share caches,
// because they execute files in them.
func userCacheDir(uid int) string { return path.Join(CacheDir, strconv.Itoa(uid)) }

// cacheEnvironment returns the variables that make programs use the caches.
func cacheEnvironment(user, root string) []string {
	u, _, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return nil
	}
	dir := userCacheDir(uid)
	env := []string{
		wire.CacheEnv + "=" + dir,
		"npm_config_cache=" + dir + "/npm",
		"pnpm_config_store_dir=" + dir + "/pnpm/store",
		"YARN_GLOBAL_FOLDER=" + dir + "/yarn/berry",
		"PIP_CACHE_DIR=" + dir + "/pip",
		"UV_CACHE_DIR=" + dir + "/uv",
		"UV_LINK_MODE=copy", // hard links do not cross volumes
		"CARGO_HOME=" + dir + "/cargo",
		"CARGO_INSTALL_ROOT=" + userimage.Home + "/.cargo", // not a cache
		"GOMODCACHE=" + dir + "/go/mod",
		"GOCACHE=" + dir + "/go/build",
		"APT_CONFIG=" + dir + "/apt/apt.conf",
	}
	// A project with a newer yarn can have its cache in the worktree.
	if _, err := os.Lstat(filepath.Join(root, ".yarnrc.yml")); errors.Is(err, fs.ErrNotExist) {
		env = append(env, "YARN_CACHE_FOLDER="+dir+"/yarn")
	}
	return env
}
