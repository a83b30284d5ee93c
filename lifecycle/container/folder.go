package container

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// replaced reports whether the work tree is another folder now than the one that
// was there when its sandbox was prepared.
func (m marker) replaced(root string) bool {
	return m.Folder != "" && m.Folder != folderID(root)
}

// remount starts a sandbox again that has a folder mounted which is gone: its
// work tree was removed and made again under the same path. A container keeps
// what was there when it was started.
func (d *Driver) remount(ctx context.Context, sb lifecycle.Sandbox) error {
	_, m, _ := d.readWholeMarker(sb)
	if d.startedHere(sb) || !m.replaced(sb.Root) {
		return nil
	}
	busy, err := d.Busy(ctx, sb)
	if err != nil {
		return err
	}
	if busy {
		return fmt.Errorf("%s was replaced by another folder, and the sandbox %s still works in the one that is gone: end what runs in it with \"docker ralph stop --now %s\"", sb.Root, sb.Name, sb.Name)
	}
	if d.Report != nil {
		d.Report(fmt.Sprintf("Starting the sandbox %s again: %s was replaced by another folder", sb.Name, sb.Root))
	}
	if err := d.Stop(ctx, sb); err != nil {
		return err
	}
	return d.Start(ctx, sb)
}
