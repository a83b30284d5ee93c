//go:build unix

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
)

// Tests that are run with remote engines.

// transport is a way to reach a remote engine.
type transport struct {
	name    string
	connect func(w *world, t *testing.T) *slowlink.Link
}

var transports = []transport{
	{"tls", (*world).connectTLS},
	{"ssh", (*world).connectSSH},
}

// remoteWorlds runs a test with remote engines, with a new world for each transport: on one engine by
// TLS and on the other by SSH, or all four combinations for a test of onEveryEngine.
func remoteWorlds(t *testing.T, test func(t *testing.T, w *world, link *slowlink.Link)) {
	t.Helper()
	t.Parallel()
	on := remoteEnginesFor(t)
	for i, transport := range transports {
		each := on
		if len(on) == 1 {
			each = []engines.Engine{engineAfter(on[0], i)}
		}
		for _, e := range each {
			t.Run(transport.name+"-"+e.Name, func(t *testing.T) {
				t.Parallel()
				w, link := newRemoteWorld(t, e, transport)
				test(t, w, link)
			})
		}
	}
}

// andRemote runs a test as it is run elsewhere, and in the matrix or if onRemotes lists it, with a clone on a
// remote engine, by TLS or SSH. It is of a kind that the test does not run on otherwise, if there is one.
func andRemote(t *testing.T, elsewhere func(t *testing.T, test func(t *testing.T, w *world)), test func(t *testing.T, w *world)) {
	t.Helper()
	elsewhere(t, test)
	if !inMatrix() && !listed(t, onRemotes) {
		return
	}
	by := transports[hashOf(t.Name())%len(transports)]
	t.Run("remote-"+by.name, func(t *testing.T) {
		t.Parallel()
		w, _ := newRemoteWorld(t, engineAfter(remoteEnginesFor(t)[0], 1), by)
		test(t, w)
	})
}

// newRemoteWorld makes the world of a user of a remote engine.
func newRemoteWorld(t *testing.T, e engines.Engine, by transport) (*world, *slowlink.Link) {
	t.Helper()
	w := newWorld(t, e)
	w.setenv("RALPH_WORKSPACE", "clone")
	link := by.connect(w, t)
	t.Cleanup(func() { assertNoHostMounts(t, w) })
	return w, link
}

// hasClone reports whether the world's sandboxes have a clone.
func (w *world) hasClone() bool {
	workspace := ""
	for _, entry := range w.env {
		if value, is := strings.CutPrefix(entry, "RALPH_WORKSPACE="); is {
			workspace = value
		}
	}
	return w.driver != config.DriverDockerSandbox && workspace != config.WorkspaceLive
}

// insideUID is the ID of the agent's user: yours, or always the same in a container with a clone.
func (w *world) insideUID() string {
	if w.hasClone() && !w.isMicroVM() {
		return "1000"
	}
	return fmt.Sprint(w.uid)
}

// insideUser is the agent's user and group.
func (w *world) insideUser() string {
	if w.hasClone() && !w.isMicroVM() {
		return "1000:1000"
	}
	return fmt.Sprintf("%d:%d", w.uid, w.gid)
}

// pathInside returns the path of a file in the worktree as the sandbox has it: a clone is in a
// volume on the engine's machine. It waits for a clone that is being made.
func (w *world) pathInside(t *testing.T, name string) string {
	t.Helper()
	if !w.hasClone() {
		return filepath.Join(w.repo, name)
	}
	var root string
	eventually(t, func() (err error) {
		root, err = w.cloneRoot(t)
		return err
	})
	return filepath.Join(root, name)
}

// cloneRoot returns the directory of this machine in which the worktree's clone is.
func (w *world) cloneRoot(t *testing.T) (string, error) {
	t.Helper()
	missing := fmt.Errorf("%s has no sandbox", w.repo)
	api := w.engine.Client(t)
	if w.isMicroVM() {
		all := w.sandboxes(t)
		if len(all) != 1 {
			return "", missing
		}
		res, err := api.ContainerInspect(t.Context(), all[0].ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		for _, m := range res.Container.Mounts {
			if m.Destination == w.repo {
				return m.Source, nil
			}
		}
		return "", missing
	}
	for _, c := range w.containers(t) {
		if c.Labels[labelPrefix+"worktree"] == w.repo {
			volume, err := api.VolumeInspect(t.Context(), "ralph-clone-"+c.Names[0][1:], client.VolumeInspectOptions{})
			return volume.Volume.Mountpoint, err
		}
	}
	return "", missing
}

// assertNoHostMounts asserts that no container of the world mounts a path of the engine's machine.
func assertNoHostMounts(t *testing.T, w *world) {
	t.Helper()
	assert.Check(t, is.Len(hostMounts(t, w), 0))
}

// hostMounts returns the paths of the engine's machine that the world's containers mount, directly or
// through a volume.
func hostMounts(t *testing.T, w *world) []string {
	t.Helper()
	ctx, api := context.WithoutCancel(t.Context()), w.engine.Client(t)
	var paths []string
	for _, c := range append(w.containers(t), w.helperContainers(t)...) {
		res, err := api.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			continue // removed meanwhile
		}
		assert.NilError(t, err)
		for _, m := range res.Container.Mounts {
			if m.Type != mount.TypeVolume {
				if m.Type == mount.TypeBind {
					paths = append(paths, m.Source)
				}
				continue
			}
			volume, err := api.VolumeInspect(ctx, m.Name, client.VolumeInspectOptions{})
			if errdefs.IsNotFound(err) {
				continue
			}
			assert.NilError(t, err)
			if device := volume.Volume.Options["device"]; filepath.IsAbs(device) {
				paths = append(paths, device)
			}
		}
	}
	return paths
}
