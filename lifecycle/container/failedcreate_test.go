package container

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
)

// blind is an engine that keeps volumes, and creates no container.
type blind struct {
	networked
	volumes map[string]volume.Volume
}

func (b blind) VolumeInspect(_ context.Context, name string, _ client.VolumeInspectOptions) (client.VolumeInspectResult, error) {
	v, ok := b.volumes[name]
	if !ok {
		return client.VolumeInspectResult{}, errdefs.ErrNotFound
	}
	return client.VolumeInspectResult{Volume: v}, nil
}

func (b blind) VolumeCreate(_ context.Context, opts client.VolumeCreateOptions) (client.VolumeCreateResult, error) {
	if _, exists := b.volumes[opts.Name]; !exists {
		b.volumes[opts.Name] = volume.Volume{Name: opts.Name, Labels: opts.Labels}
	}
	return client.VolumeCreateResult{Volume: b.volumes[opts.Name]}, nil
}

func (b blind) VolumeRemove(_ context.Context, name string, _ client.VolumeRemoveOptions) (client.VolumeRemoveResult, error) {
	delete(b.volumes, name)
	return client.VolumeRemoveResult{}, nil
}

func (b blind) ContainerInspect(context.Context, string, client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	return client.ContainerInspectResult{}, errdefs.ErrNotFound
}

// createVolumes creates the git volumes of a sandbox as [Driver.Create] does.
func createVolumes(t *testing.T, d *Driver, spec lifecycle.Spec) {
	t.Helper()
	_, err := d.createGit(t.Context(), spec, labels(spec))
	assert.NilError(t, err)
}

func gitSpec(clone bool) lifecycle.Spec {
	return lifecycle.Spec{Name: "sb", Root: "/src", Clone: clone, Git: func(context.Context) (*gitsync.Layout, error) {
		l := &gitsync.Layout{Folder: gitsync.Folder, Fill: func(context.Context, string, io.Writer) error { return nil }}
		if clone {
			l.Worktree = "/src"
		}
		return l, nil
	}}
}

// A creation that fails, or is interrupted, leaves no volume that blocks the other workspace.
func TestFailedCreationLeavesNoGitVolume(t *testing.T) {
	for _, first := range []bool{false, true} {
		api := blind{volumes: map[string]volume.Volume{}}
		d := &Driver{API: api, StateDir: t.TempDir()}
		createVolumes(t, d, gitSpec(first))
		assert.Assert(t, gitsync.Saved(d.StateDir, "sb"), "clean may remove it")

		// Interrupted here: the next creation starts from the beginning.
		createVolumes(t, d, gitSpec(!first))
		assert.Equal(t, api.volumes[gitVolume("sb")].Labels[labelWorkspace], map[bool]string{true: "clone"}[!first])

		assert.NilError(t, d.removeUnusedGit(t.Context(), gitSpec(!first)))
		assert.DeepEqual(t, slices.Collect(maps.Keys(api.volumes)), []string(nil))
	}
}

// A creation that fails leaves a container of a live workspace, which is not prepared.
func TestUnpreparedSandboxIsUnused(t *testing.T) {
	d := &Driver{StateDir: t.TempDir()}
	sb := lifecycle.Sandbox{Name: "sb", ID: "1"}
	assert.Check(t, d.unused(sb, container.StateRunning))
	assert.NilError(t, d.saveMarker("sb", marker{ID: "1"}))
	assert.Check(t, !d.unused(sb, container.StateRunning))
	assert.Check(t, !d.unused(sb, container.StateExited))
	assert.Check(t, d.unused(sb, container.StateCreated))
	sb.ID = "2" // of the next one
	assert.Check(t, d.unused(sb, container.StateRunning))
}

// The volumes of an earlier sandbox may have the only copy of its commits.
func TestFailedCreationKeepsEarlierCommits(t *testing.T) {
	for _, name := range []string{gitVolume("sb"), cloneVolume("sb")} {
		spec := gitSpec(true)
		l := labels(spec)
		l[labelGit] = gitPrivate
		api := blind{volumes: map[string]volume.Volume{name: {Name: name, Labels: l}}}
		d := &Driver{API: api, StateDir: t.TempDir()}
		createVolumes(t, d, spec)
		assert.NilError(t, d.removeUnusedGit(t.Context(), spec))
		assert.Equal(t, len(api.volumes), 2)
	}
}

func TestMissingWorktreeHintsAtAClone(t *testing.T) {
	for _, said := range []string{
		"invalid mount config for type \"bind\": bind source path does not exist: /src",
		"Error response from daemon: bind source path does not exist: /host_mnt/src",
		"bind source path does not exist: /src/.git/objects",
	} {
		err := explainCreate(gitSpec(false), errors.New(said))
		assert.ErrorContains(t, err, "mounting worktree /src: ")
		assert.Assert(t, strings.Contains(strings.Join(hint.Of(err), "\n"), "--workspace clone"), err)
	}
}

// forgetful is an engine that answers the creation of an existing volume without its labels.
type forgetful struct{ blind }

func (f forgetful) VolumeCreate(ctx context.Context, opts client.VolumeCreateOptions) (client.VolumeCreateResult, error) {
	_, exists := f.volumes[opts.Name]
	res, err := f.blind.VolumeCreate(ctx, opts)
	if exists {
		res.Volume.Labels = nil
	}
	return res, err
}

// After a restart of the engine, the volumes of an earlier sandbox are still ours.
func TestVolumesAreOursAfterARestart(t *testing.T) {
	d := &Driver{API: forgetful{blind{volumes: map[string]volume.Volume{}}}, StateDir: t.TempDir()}
	spec := gitSpec(true)
	spec.Cache = "/src"
	for range 2 {
		assert.NilError(t, d.createSockets(t.Context(), spec.Name, ""))
		createVolumes(t, d, spec)
		_, err := d.createCache(t.Context(), spec, labels(spec))
		assert.NilError(t, err)
	}

	foreign := blind{volumes: map[string]volume.Volume{socketsVolume("sb"): {Name: socketsVolume("sb")}}}
	err := (&Driver{API: forgetful{foreign}, StateDir: t.TempDir()}).createSockets(t.Context(), "sb", "")
	assert.ErrorContains(t, err, "that docker-ralph did not create")
}

// listed is an engine with containers, which removes them.
type listed struct {
	engine.API
	containers *[]container.Summary
}

func (l listed) ContainerList(_ context.Context, opts client.ContainerListOptions) (res client.ContainerListResult, err error) {
	for _, c := range *l.containers {
		matches := true
		for label := range opts.Filters["label"] {
			key, value, valued := strings.Cut(label, "=")
			has, exists := c.Labels[key]
			matches = matches && exists && (!valued || has == value)
		}
		if matches {
			res.Items = append(res.Items, c)
		}
	}
	return res, nil
}

func (l listed) NetworkList(context.Context, client.NetworkListOptions) (res client.NetworkListResult, err error) {
	return res, nil
}

func (l listed) VolumeList(context.Context, client.VolumeListOptions) (res client.VolumeListResult, err error) {
	return res, nil
}

func (l listed) ContainerInspect(context.Context, string, client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	return client.ContainerInspectResult{}, errdefs.ErrNotFound
}

func (l listed) ContainerRemove(_ context.Context, id string, _ client.ContainerRemoveOptions) (res client.ContainerRemoveResult, err error) {
	*l.containers = slices.DeleteFunc(*l.containers, func(c container.Summary) bool { return c.ID == id })
	return res, nil
}

func TestUnfinishedImagesAreSwept(t *testing.T) {
	old := time.Now().Add(-2 * time.Hour).Unix()
	adding := map[string]string{engine.LabelCreatedBy: engine.CreatedBy, userimage.LabelOrigin: "sha256:base"}
	containers := []container.Summary{
		{ID: "killed", Names: []string{"/quiet_one"}, ImageID: "sha256:base", Labels: adding, Created: old},
		{ID: "users", Names: []string{"/users"}, ImageID: "sha256:finished", Labels: adding, Created: old}, // docker run
		{ID: "foreign", Names: []string{"/foreign"}, ImageID: "sha256:base", Created: old},
	}
	d := &Driver{API: listed{containers: &containers}}

	removed, err := d.SweepOrphans(t.Context(), time.Hour)
	assert.NilError(t, err)
	assert.DeepEqual(t, removed, []string{"quiet_one"})
	assert.Equal(t, len(containers), 2)

	containers = append(containers, container.Summary{ID: "now", Names: []string{"/now"}, ImageID: "sha256:base", Labels: adding, Created: time.Now().Unix()})
	removed, err = d.SweepOrphans(t.Context(), time.Hour)
	assert.NilError(t, err)
	assert.Equal(t, len(removed), 0, "it may be in use")
}
