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

// CacheDir is where the caches of the repository are in every sandbox.
const CacheDir = "/ralph-cache"

// CacheVolume names the volume with the caches of a repository, by the path in
// [lifecycle.Spec.Cache]. All its sandboxes have it, and it stays when they go.
func CacheVolume(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return "ralph-cache-" + hex.EncodeToString(sum[:])[:12]
}

// makeCache makes sure that the volume with the repository's caches is there,
// and mounts it. A note is returned if the user has no folder there yet, to be
// written when there is one.
func (d *Driver) makeCache(ctx context.Context, spec lifecycle.Spec, l map[string]string) ([]mount.Mount, *cacheNote, error) {
	if spec.Cache == "" {
		return nil, nil, nil
	}
	name := CacheVolume(spec.Cache)
	_, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{
		labelCreatedBy: createdBy, labelRole: roleCache, labelRepo: spec.Scope.Repo, labelRoot: spec.Cache, labelVersion: spec.Version,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("making the volume %s: %w", name, err)
	}
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("looking at the volume %s: %w", name, err)
	}
	// One that is there already is not changed by that.
	if has := res.Volume.Labels; has[labelCreatedBy] != createdBy || has[labelRoot] != spec.Cache {
		return nil, nil, &lifecycle.ForeignError{Name: name, What: "a volume"}
	}
	l[labelCache] = name
	note := d.cacheNote(name, res.Volume.CreatedAt, l[labelUser])
	if note.holds() {
		note = nil
	}
	return []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: CacheDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}, note, nil
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
// started yet, and nothing in it can have changed what is there. What is in the
// folder for caches, ralph makes.
func (d *Driver) furnish(ctx context.Context, id string, spec lifecycle.Spec, user string, fresh *cacheNote) error {
	u, g, _ := strings.Cut(user, ":")
	uid, errU := strconv.Atoi(u)
	gid, errG := strconv.Atoi(g)
	if err := errors.Join(errU, errG); err != nil {
		return err
	}
	for _, dir := range spec.Shadows {
		if err := d.giveFolder(ctx, id, dir, uid, gid); err != nil {
			return err
		}
	}
	if fresh == nil {
		return nil
	}
	if err := d.giveFolder(ctx, id, cacheOf(uid), uid, gid); err != nil {
		return err
	}
	return fresh.write()
}

// giveFolder makes a folder on a volume of a container, and gives it to the user.
func (d *Driver) giveFolder(ctx context.Context, id, dir string, uid, gid int) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Base(dir) + "/", Mode: 0o755, Uid: uid, Gid: gid})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if _, err := d.API.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path.Dir(dir), Content: &archive}); err != nil {
		return fmt.Errorf("giving %s to the user %d: %w", dir, uid, err)
	}
	return nil
}

// cacheNote is a note on the host that a user has a folder on a volume with
// caches. The volume is told from another of its name by when it was made.
type cacheNote struct{ path, made string }

func (d *Driver) cacheNote(volume, made, user string) *cacheNote {
	uid, _, _ := strings.Cut(user, ":")
	return &cacheNote{filepath.Join(d.cacheNotes(volume), uid), made}
}

func (d *Driver) cacheNotes(volume string) string { return filepath.Join(d.StateDir, "caches", volume) }

// holds reports whether it was noted of that volume. One that cannot be read does
// not.
func (n *cacheNote) holds() bool {
	was, err := os.ReadFile(n.path)
	return err == nil && n.made != "" && string(was) == n.made
}

func (n *cacheNote) write() error {
	err := os.MkdirAll(filepath.Dir(n.path), 0o700)
	if err == nil {
		err = atomicwriter.WriteFile(n.path, []byte(n.made), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting who has a folder for caches: %w", err)
	}
	return nil
}

// cacheOf is the folder with a user's caches: what one user of a machine puts
// there is not run by another.
func cacheOf(uid int) string { return path.Join(CacheDir, strconv.Itoa(uid)) }

// cacheEnvironment leads programs to the caches.
func cacheEnvironment(user, root string) []string {
	u, _, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return nil
	}
	dir := cacheOf(uid)
	env := []string{
		wire.CacheEnv + "=" + dir,
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
