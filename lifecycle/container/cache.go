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

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// CacheDir is where the caches of the repository are in every sandbox.
const CacheDir = "/ralph-cache"

// CacheVolume names the volume with the caches of a repository, by the path of
// its main work tree. All its sandboxes have it, and it stays when they go.
func CacheVolume(mainRoot string) string {
	sum := sha256.Sum256([]byte(mainRoot))
	return "ralph-cache-" + hex.EncodeToString(sum[:])[:12]
}

// makeCache makes sure that the volume with the repository's caches is there,
// and mounts it.
func (d *Driver) makeCache(ctx context.Context, spec lifecycle.Spec, l map[string]string) ([]mount.Mount, error) {
	if !spec.Cache {
		return nil, nil
	}
	name := CacheVolume(spec.MainRoot)
	_, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{
		labelCreatedBy: createdBy, labelRole: roleCache, labelRepo: spec.Scope.Repo, labelRoot: spec.MainRoot, labelVersion: spec.Version,
	}})
	if err != nil {
		return nil, fmt.Errorf("making the volume %s: %w", name, err)
	}
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking at the volume %s: %w", name, err)
	}
	// One that is there already is not changed by that.
	if has := res.Volume.Labels; has[labelCreatedBy] != createdBy || has[labelRoot] != spec.MainRoot {
		return nil, fmt.Errorf("the volume %s is not the cache of %s: it is of somebody else, and left alone. Remove it with \"docker volume rm %s\" if nobody needs it", name, spec.MainRoot, name)
	}
	l[labelCache] = name
	return []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: CacheDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}, nil
}

// shadowMounts are volumes of the sandbox's own over folders of the work tree
// that another platform's programs are in.
func shadowMounts(spec lifecycle.Spec, l map[string]string) []mount.Mount {
	var mounts []mount.Mount
	for _, dir := range spec.Shadows {
		// Without a name, the volume comes and goes with the container.
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: dir, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: l}})
	}
	return mounts
}

// furnish gives what was mounted empty to the user. The container has not been
// started yet, and nothing in it can have changed what is there.
func (d *Driver) furnish(ctx context.Context, id string, spec lifecycle.Spec, user string) error {
	u, g, _ := strings.Cut(user, ":")
	uid, errU := strconv.Atoi(u)
	gid, errG := strconv.Atoi(g)
	if err := errors.Join(errU, errG); err != nil {
		return err
	}
	for _, dir := range spec.Shadows {
		if err := d.copyOwned(ctx, id, path.Dir(dir), uid, gid, owned{name: path.Base(dir) + "/"}); err != nil {
			return err
		}
	}
	if !spec.Cache {
		return nil
	}
	if err := d.copyOwned(ctx, id, CacheDir, uid, gid, cacheFolders(uid)...); err != nil {
		return err
	}
	// pnpm before 11 reads no variable but one that npm warns of.
	return d.copyOwned(ctx, id, Home, uid, gid, owned{name: ".config/"}, owned{name: ".config/pnpm/"},
		owned{".config/pnpm/rc", "store-dir=" + path.Join(cacheOf(uid), "pnpm", "store") + "\n"})
}

// owned is a file or, with a slash at the end, a folder.
type owned struct{ name, content string }

// copyOwned copies files into a folder of a container, as the user's.
func (d *Driver) copyOwned(ctx context.Context, id, target string, uid, gid int, files ...owned) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: 0o644, Uid: uid, Gid: gid}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write([]byte(f.content)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err := d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: target, Content: &archive})
	if err != nil {
		return fmt.Errorf("giving %s to the user %d: %w", target, uid, err)
	}
	return nil
}

// cacheOf is the folder with a user's caches: what one user of a machine puts
// there is not run by another.
func cacheOf(uid int) string { return path.Join(CacheDir, strconv.Itoa(uid)) }

// cacheFolders are those in which programs look for nothing that they would not
// make themselves, but for apt's.
func cacheFolders(uid int) []owned {
	of := strconv.Itoa(uid) + "/"
	var all []owned
	for _, name := range []string{
		"", "npm/", "pnpm/", "pnpm/store/", "yarn/", "pip/", "uv/", "cargo/", "go/", "go/mod/", "go/build/",
		"apt/", "apt/cache/", "apt/cache/archives/", "apt/cache/archives/partial/", "apt/lists/", "apt/lists/partial/",
	} {
		all = append(all, owned{name: of + name})
	}
	dir := cacheOf(uid)
	return append(all, owned{of + "apt/apt.conf", fmt.Sprintf("Dir::Cache %q;\nDir::State::lists %q;\n", dir+"/apt/cache", dir+"/apt/lists")})
}

// cacheEnvironment leads programs to the caches.
func cacheEnvironment(user, root string) []string {
	u, _, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return nil
	}
	dir := cacheOf(uid)
	env := []string{
		"npm_config_cache=" + dir + "/npm",
		"pnpm_config_store_dir=" + dir + "/pnpm/store",
		"YARN_GLOBAL_FOLDER=" + dir + "/yarn/berry",
		"PIP_CACHE_DIR=" + dir + "/pip",
		"UV_CACHE_DIR=" + dir + "/uv",
		"UV_LINK_MODE=copy", // there is no linking from one volume to another
		"CARGO_HOME=" + dir + "/cargo",
		"CARGO_INSTALL_ROOT=" + Home + "/.cargo", // programs are no cache
		"GOMODCACHE=" + dir + "/go/mod",
		"GOCACHE=" + dir + "/go/build",
		"APT_CONFIG=" + dir + "/apt/apt.conf",
	}
	// A project with a newer yarn can have its cache in the work tree, which this
	// would take it away from.
	if _, err := os.Lstat(filepath.Join(root, ".yarnrc.yml")); errors.Is(err, fs.ErrNotExist) {
		env = append(env, "YARN_CACHE_FOLDER="+dir+"/yarn")
	}
	return env
}
