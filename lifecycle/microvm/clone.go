package microvm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// A clone is on the disk of its microVM. The program insists on a workspace before it mounts anything
// else: it gets an empty directory of ours.

// workspace returns the directory that the program mounts as the workspace of a sandbox.
func (d *Driver) workspace(r record) string {
	if r.Clone {
		return scopes.Path(d.StateDir, r.Name, d.name+".workspace")
	}
	return r.Root
}

// mounts returns the directories to mount besides the workspace, which it creates for a clone.
func (d *Driver) mounts(rec record, spec lifecycle.Spec) ([]string, error) {
	const readOnly = ":ro"
	mounts := slices.Clone(spec.Mounts)
	if rec.Clone {
		if err := os.MkdirAll(d.workspace(rec), 0o700); err != nil {
			return nil, fmt.Errorf("creating the workspace of sandbox %s: %w", rec.Name, err)
		}
	}
	guest := d.guestFolder()
	if err := guest.make(); err != nil {
		return nil, err
	}
	mounts = append(mounts, string(guest)+readOnly)
	if spec.Config != "" {
		if err := agentconfig.MakeShown(spec.Config); err != nil {
			return nil, err
		}
		mounts = append(mounts, spec.Config+readOnly)
	}
	return mounts, nil
}

// cloneState prints the agent's user and, if a clone has its git directory, a third line.
const cloneState = `id -u; id -g; if test -e "$1/HEAD"; then echo filled; fi`

// cloneScript makes a clone without commits, as root. Its arguments are the clone's path, the agent's
// user and the git directory, and its input an archive of that, whose HEAD is the last file.
const cloneScript = `set -e
mkdir -p "$1" "${3%/*}"
ln -sfn "$3" "$1/.git"
chown -h "$2" "$1" "$1/.git"
tar -x -f - -C "${3%/*}"
`

// fillClone makes the clone of a sandbox in which no command has run, unless it has one.
func (d *Driver) fillClone(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	out, err := d.inside(ctx, sb.Name, limitExec, "sh", "-c", cloneState, "sh", gitsync.Folder)
	if err != nil {
		return fmt.Errorf("examining the clone of sandbox %s: %w", sb.Name, err)
	}
	said := strings.Fields(string(out))
	if len(said) == 3 {
		return nil
	}
	if len(said) != 2 {
		return fmt.Errorf("examining the clone of sandbox %s: unexpected output %.80q", sb.Name, out)
	}
	user := strings.Join(said, ":")

	own, err := spec.Git(ctx)
	var archive bytes.Buffer
	if err == nil {
		err = own.Fill(ctx, user, &archive)
	}
	if err != nil {
		return err
	}
	c, err := d.client(ctx)
	if err != nil {
		return err
	}
	c.stdin = &archive
	script := d.exec(sb.Name, execOptions{user: "root"}, "sh", "-c", cloneScript, "sh", path.Clean(filepath.ToSlash(sb.Root)), user, gitsync.Folder)
	if _, err := c.output(ctx, d.scaled(limitExec), script...); err != nil {
		return fmt.Errorf("making the clone of sandbox %s: %w", sb.Name, d.withHint(err))
	}
	return nil
}

// removeClone removes what the host has of a clone whose sandbox was removed.
func (d *Driver) removeClone(sb lifecycle.Sandbox) error {
	if !sb.Private {
		return nil
	}
	if err := os.RemoveAll(d.workspace(record{Name: sb.Name, Clone: true})); err != nil {
		return fmt.Errorf("removing the workspace of sandbox %s: %w", sb.Name, err)
	}
	return gitsync.Forget(d.StateDir, sb.Name)
}
