//go:build linux

package e2e

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// Full disks, of the worktree and of the engine.

// fullDisks are what fills the disk of the worktree, which is small, or that of the
// engine.
var fullDisks = []fault{
	// The commit of the run is in the sandbox only: there is no space for it outside. The loop waits for that.
	{
		name: "worktree", outside: func(t *testing.T, m *faultRun) {
			fill := exec.Command("sh", "-c", "mkdir big; cp /dev/zero big/0; n=0; while echo x >big/$n; do n=$((n+1)); done")
			fill.Dir = m.repo
			assert.NilError(t, fill.Run())
			m.release(t)
			awaitOutput(t, m.build, "no space left on device; asking again in 5s\n")
			assert.NilError(t, os.RemoveAll(filepath.Join(m.repo, "big")))
		},
	},
	{name: "clone", step: "cat /dev/zero >.ralph/big", reason: "no space left on the file system of /", code: 1, repair: func(t *testing.T, m *faultRun) { m.script(t, "rm .ralph/big") }},
	// What has filled it ends with its run.
	{
		name: "leftover", step: "(exec 9>.ralph/big; rm .ralph/big; cat /dev/zero >&9; touch full; sleep 600) & until test -e full; do sleep 0.05; done; exit 1",
		reason: "exited with code 1: no space left on the file system of /",
	},
	// The next run finds it empty.
	{name: "tmp", step: "mkdir -p /tmp/d/e; chmod 555 /tmp/d; cat /dev/zero >/tmp/d/e/big; exit 1", reason: "exited with code 1: /tmp is full (32MiB)"},
	{name: "shm", step: "mkdir /dev/shm/d; cat /dev/zero >/dev/shm/d/big; exit 1", reason: "exited with code 1: /dev/shm is full (16MiB)"},
	// That of the git directory.
	{
		name: "engine", step: "cat /dev/zero >.git/big", reason: "no space left on the file system of /", code: 1,
		repair: func(t *testing.T, m *faultRun) { m.script(t, "rm .git/big") },
	},
}

// A full disk costs the run that meets it. The loop reports it, and continues as soon as
// there is space; no task, log or commit is lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can mount a small file system")
	}
	w := newWorld(t, enginesFor(t)[0])
	w.setenv("RALPH_TMP", "32m")
	w.setenv("RALPH_SHM", "16m")
	w.prepareForFaults(t)
	w.mountSmallDisk(t, w.repo)
	w.createSandbox(t)
	w.ok(t, "stop")
	for _, m := range w.container(t).Mounts {
		if m.Destination == w.repo || m.Destination == filepath.Join(w.repo, ".git") {
			w.mountSmallDisk(t, m.Source)
		}
	}
	for _, row := range fullDisks {
		if !t.Run(row.name, func(t *testing.T) { w.runScenario(t, row) }) {
			return
		}
	}
}

// mountSmallDisk puts a folder on a small file system of its own, here and where the engine
// is.
func (w *world) mountSmallDisk(t *testing.T, dir string) {
	t.Helper()
	script := func(ctx context.Context, script string) {
		cmd := exec.CommandContext(ctx, "sh", "-ec", script, "sh", filepath.Join(w.dir, rand.Text()), dir, "ralph-"+w.engine.Name)
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	const inside = `for pid in $(ip netns pids "$3"); do grep -qx dockerd /proc/$pid/comm && break; done
inside() { nsenter --target $pid --mount --pid "$@"; }
`
	t.Cleanup(func() { script(context.WithoutCancel(t.Context()), inside+`umount -l "$2"; inside umount -l "$2"`) })
	script(t.Context(), inside+`truncate -s 16M "$1"
mkfs.ext4 -q -m 0 -O ^has_journal "$1"
mkdir "$1.new"
mount -o loop "$1" "$1.new"
device=$(losetup -n -O NAME -j "$1")
rmdir "$1.new/lost+found"
cp -a "$2/." "$1.new"
chown --reference="$2" "$1.new"
chmod --reference="$2" "$1.new"
mount "$device" "$2"
umount "$1.new"
inside mountpoint -q "$2" || inside mount "$device" "$2"
`)
}
