package container

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// rootReplaced reports whether the worktree's directory was replaced since the sandbox was
// prepared.
func (m marker) rootReplaced(root string) bool {
	return m.Folder != "" && m.Folder != folderID(root)
}

// remount restarts a sandbox whose worktree was removed and created again at the same
// path, because a container keeps the old directory mounted.
func (d *Driver) remount(ctx context.Context, sb lifecycle.Sandbox) error {
	_, m, _ := d.readFullMarker(sb)
	if d.startedByUs(sb) || !m.rootReplaced(sb.Root) {
		return nil
	}
	busy, err := d.Busy(ctx, sb)
	if err != nil {
		return err
	}
	if busy {
		return hint.Wrap(fmt.Errorf("%s was replaced while a command is running in sandbox %s", sb.Root, sb.Name), "stop it with %q", "docker ralph stop --now "+sb.Name)
	}
	if d.Report != nil {
		d.Report(fmt.Sprintf("Restarting sandbox %s: %s was replaced", sb.Name, sb.Root))
	}
	if err := d.Stop(ctx, sb); err != nil {
		return err
	}
	return d.Start(ctx, sb)
}
