package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/wire"
)

const gitPrivate = "private"

// gitVolume returns the name of a sandbox's git volume. While it may contain unfetched
// commits, it outlives the sandbox, and the next one of that name uses it.
func gitVolume(sandbox string) string { return "ralph-git-" + sandbox }

// cloneVolume returns the name of the volume with a clone's working tree, which exists
// together with the git volume.
func cloneVolume(sandbox string) string { return "ralph-clone-" + sandbox }

// createGit ensures that the sandbox's git volume exists, and the one with its clone.
func (d *Driver) createGit(ctx context.Context, spec lifecycle.Spec, l map[string]string) (*gitsync.Layout, error) {
	if spec.Git == nil {
		return nil, nil
	}
	own, err := spec.Git(ctx)
	if err != nil {
		return nil, err
	}
	l[labelGit] = gitPrivate
	if err := d.resetGit(ctx, spec.Name); err != nil {
		return nil, err
	}
	if err := d.createGitVolume(ctx, gitVolume(spec.Name), RoleGit, l); err != nil {
		return nil, err
	}
	return own, d.createGitVolume(ctx, cloneVolume(spec.Name), RoleClone, l)
}

// resetGit removes the git volumes of an earlier sandbox whose commits are saved. If none are left,
// nothing can be lost until a command runs: the state says so, and a creation that fails, or is
// interrupted, does not keep its volumes.
func (d *Driver) resetGit(ctx context.Context, sandbox string) error {
	saved, left := gitsync.Saved(d.StateDir, sandbox), map[string]bool{}
	for _, name := range []string{gitVolume(sandbox), cloneVolume(sandbox)} {
		has, err := d.HasVolume(ctx, name)
		if err != nil {
			return err
		}
		if has && saved {
			err := d.RemoveVolume(ctx, name)
			if err != nil && !errdefs.IsConflict(err) {
				return err
			}
			has = err != nil
		}
		left[name] = has
	}
	switch {
	case !left[gitVolume(sandbox)] && !left[cloneVolume(sandbox)]:
		return gitsync.MarkEmpty(d.StateDir, sandbox)
	case !left[cloneVolume(sandbox)] && gitsync.IsClone(d.StateDir, sandbox):
		return gitsync.MarkEmptied(d.StateDir, sandbox)
	}
	return nil
}

// removeUnusedGit removes the git volumes of a sandbox that could not be created, unless they may
// contain commits of an earlier one.
func (d *Driver) removeUnusedGit(ctx context.Context, spec lifecycle.Spec) error {
	if spec.Git == nil || !gitsync.Saved(d.StateDir, spec.Name) {
		return nil
	}
	_, err := d.HasVolume(ctx, gitVolume(spec.Name))
	if _, foreign := errors.AsType[*lifecycle.ForeignError](err); foreign {
		return nil // the creation has failed for that
	}
	if err == nil {
		err = d.RemoveGit(ctx, spec.Name)
	}
	if errdefs.IsConflict(err) {
		return nil // another command has created the sandbox
	}
	return err
}

func (d *Driver) createGitVolume(ctx context.Context, name, role string, l map[string]string) error {
	of := maps.Clone(l)
	of[engine.LabelRole] = role
	if _, err := d.API.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: of}); err != nil {
		return fmt.Errorf("creating volume %s: %w", name, err)
	}
	return d.checkGitVolume(ctx, name, of)
}

// checkGitVolume rejects a volume of another scope, worktree or user.
func (d *Driver) checkGitVolume(ctx context.Context, name string, want map[string]string) error {
	res, err := d.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspecting volume %s: %w", name, err)
	}
	for _, label := range []string{engine.LabelCreatedBy, labelRepo, labelBranch, labelWorktree, labelUser, labelWorkspace} {
		has := res.Volume.Labels[label]
		if label == labelWorktree && isGone(has) {
			continue // moved: the content does not depend on the path
		}
		if has != want[label] {
			err := fmt.Errorf("volume %s belongs to another sandbox: %s is %q, not %q", name, label, has, want[label])
			return hint.Wrap(err, "remove it with %q in %s", "docker ralph clean --all", res.Volume.Labels[labelWorktree])
		}
	}
	return d.checkClient(res.Volume.Labels, "volume", name)
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// fillGit fills the git volume of a sandbox in which no command has run, unless it has
// content. The directory of a clone's files belongs to its user in any case.
func (d *Driver) fillGit(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if !sb.Private || spec.Git == nil {
		return nil
	}
	_, err := d.API.ContainerStatPath(ctx, sb.ID, client.ContainerStatPathOptions{Path: path.Join(gitsync.Folder, "HEAD")})
	if err != nil && !errdefs.IsNotFound(err) || err == nil && !sb.Clone {
		return err
	}
	own, errGit := spec.Git(ctx)
	if errGit != nil {
		return errGit
	}
	fill := own.Fill
	if err == nil { // the volume of its files may be new
		fill = gitsync.FillEmptied
	}
	r, w := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(ctx, sb.User, w)
		_ = w.CloseWithError(err)
		filled <- err
	}()
	_, err = d.API.CopyToContainer(ctx, sb.ID, client.CopyToContainerOptions{DestinationPath: path.Dir(own.Folder), Content: r})
	_ = r.CloseWithError(errors.New("the engine stopped reading"))
	if fillErr := <-filled; fillErr != nil && err != nil {
		err = fillErr
	}
	if err != nil {
		return fmt.Errorf("filling volume %s: %w", gitVolume(sb.Name), err)
	}
	return nil
}

func volumeMount(name, target string) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: name, Target: target, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
}

// gitMounts returns the mounts of a clone.
func gitMounts(sandbox string, own *gitsync.Layout) []mount.Mount {
	if own == nil {
		return nil
	}
	return []mount.Mount{
		// With a read-only root file system, the engine only writes to volumes.
		{Type: mount.TypeVolume, Target: path.Dir(own.Folder), VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
		volumeMount(gitVolume(sandbox), own.Folder),
		volumeMount(cloneVolume(sandbox), wire.CloneDir),
		volumeMount(cloneVolume(sandbox), own.Worktree),
		volumeMount(gitVolume(sandbox), own.Over),
	}
}

// removeGit removes the git volume of a sandbox, unless it may contain unfetched
// commits.
func (d *Driver) removeGit(ctx context.Context, sb lifecycle.Sandbox) error {
	if !sb.Private || !gitsync.Saved(d.StateDir, sb.Name) {
		return nil
	}
	return d.RemoveGit(ctx, sb.Name)
}

// RemoveGit removes the git volume of a sandbox, with unfetched commits, and its clone.
func (d *Driver) RemoveGit(ctx context.Context, sandbox string) error {
	for _, name := range []string{gitVolume(sandbox), cloneVolume(sandbox)} {
		if err := d.RemoveVolume(ctx, name); err != nil {
			return err
		}
	}
	return gitsync.Forget(d.StateDir, sandbox)
}
