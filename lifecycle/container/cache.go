package container

import (
	"archive/tar"
	"bytes"
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

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// CacheDir is the directory of the repository's caches in sandboxes.
const CacheDir = "/ralph-cache"

// CacheVolume returns the name of a repository's cache volume, for the path in
// [lifecycle.Spec.Cache]. All its sandboxes share it, and it outlives them.
func CacheVolume(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return "ralph-cache-" + hex.EncodeToString(sum[:])[:12]
}

// createCache ensures that the repository's cache volume exists, and mounts it. If the
// user has no directory in it yet, it returns a record to write when it is created.
func (d *Driver) createCache(ctx context.Context, spec lifecycle.Spec, l map[string]string) ([]mount.Mount, *cacheNote, error) {
	if spec.Cache == "" {
		return nil, nil, nil
	}
	name := CacheVolume(spec.Cache)
	_, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{
		labelCreatedBy: createdBy, labelRole: roleCache, labelRepo: spec.Scope.Repo, labelRoot: spec.Cache, labelVersion: spec.Version,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("creating the volume %s: %w", name, err)
	}
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("inspecting the volume %s: %w", name, err)
	}
	// VolumeCreate does not change an existing volume.
	if has := res.Volume.Labels; has[labelCreatedBy] != createdBy || has[labelRoot] != spec.Cache {
		return nil, nil, &lifecycle.ForeignError{Name: name, What: "a volume"}
	}
	l[labelCache] = name
	note := d.cacheNote(name, res.Volume.CreatedAt, l[labelUser])
	if note.recorded() {
		note = nil
	}
	return []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: CacheDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}, note, nil
}

// shadowMounts are volumes of the sandbox's own over folders of the work tree
// that another platform's programs are in.
func shadowMounts(spec lifecycle.Spec, l map[string]string) []mount.Mount {
	var mounts []mount.Mount
	for _, dir := range spec.Shadows {
		// An anonymous volume is removed with the container.
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: dir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: l}})
	}
	return mounts
}

// prepareDirs gives what was mounted empty to the user. The container has not been
// started yet, and nothing in it can have changed what is there. What is in the
// folder for caches, ralph makes.
func (d *Driver) prepareDirs(ctx context.Context, id string, spec lifecycle.Spec, user string, fresh *cacheNote) error {
	u, g, _ := strings.Cut(user, ":")
	uid, errU := strconv.Atoi(u)
	gid, errG := strconv.Atoi(g)
	if err := errors.Join(errU, errG); err != nil {
		return err
	}
	for _, dir := range spec.Shadows {
		if err := d.createOwnedDir(ctx, id, dir, uid, gid); err != nil {
			return err
		}
	}
	if fresh == nil {
		return nil
	}
	if err := d.createOwnedDir(ctx, id, userCacheDir(uid), uid, gid); err != nil {
		return err
	}
	return fresh.write()
}

// createOwnedDir creates a directory of the user on a volume of a container.
func (d *Driver) createOwnedDir(ctx context.Context, id, dir string, uid, gid int) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Base(dir) + "/", Mode: 0o755, Uid: uid, Gid: gid})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if _, err := d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path.Dir(dir), Content: &archive}); err != nil {
		return fmt.Errorf("creating %s for the user %d: %w", dir, uid, err)
	}
	return nil
}

// cacheNote records on the host that a user has a directory on a cache volume, which is
// identified by its creation time.
type cacheNote struct{ path, made string }

func (d *Driver) cacheNote(volume, made, user string) *cacheNote {
	uid, _, _ := strings.Cut(user, ":")
	return &cacheNote{filepath.Join(d.cacheNotes(volume), uid), made}
}

func (d *Driver) cacheNotes(volume string) string { return filepath.Join(d.StateDir, "caches", volume) }

// recorded reports whether the record exists for that volume.
func (n *cacheNote) recorded() bool {
	was, err := os.ReadFile(n.path)
	return err == nil && n.made != "" && string(was) == n.made
}

func (n *cacheNote) write() error {
	err := os.MkdirAll(filepath.Dir(n.path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(n.path, []byte(n.made), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the cache directory: %w", err)
	}
	return nil
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
		"CARGO_INSTALL_ROOT=" + Home + "/.cargo", // not a cache
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
