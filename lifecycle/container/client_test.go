package container

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/scopes"
)

const (
	theirID   = "THEIRS"
	theirName = "una@laptop"
)

// theirs adds the labels of another client.
func theirs(l map[string]string) map[string]string {
	l[engine.LabelClient], l[labelClientName] = theirID, theirName
	return l
}

// inspected is an engine with one container.
type inspected struct {
	listed
	name   string
	labels map[string]string
}

func (i inspected) ContainerInspect(ctx context.Context, name string, opts client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	if name != i.name {
		return i.listed.ContainerInspect(ctx, name, opts)
	}
	return client.ContainerInspectResult{Container: container.InspectResponse{
		ID: "id", Name: "/" + name, Config: &container.Config{Labels: i.labels}, State: &container.State{Status: container.StateRunning}, HostConfig: &container.HostConfig{},
	}}, nil
}

// A sandbox of another client is not looked up as one of ours. One of an earlier version is.
func TestSandboxOfAnotherClient(t *testing.T) {
	dir := t.TempDir()
	own, err := scopes.EnsureClientID(dir)
	assert.NilError(t, err)
	spec := gitSpec(true)
	for _, tc := range []struct {
		name, state string
		labels      map[string]string
		other       string
	}{
		{"ours", dir, map[string]string{engine.LabelClient: own}, ""},
		{"of an earlier version", dir, nil, ""},
		{"theirs", dir, theirs(map[string]string{}), theirName},
		{"theirs without a name", dir, map[string]string{engine.LabelClient: theirID}, theirID},
		{"of a lost configuration", t.TempDir(), map[string]string{engine.LabelClient: own}, own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := labels(spec)
			for key, value := range tc.labels {
				l[key] = value
			}
			containers := []container.Summary{{ID: "id", Names: []string{"/sb"}, Labels: l, State: container.StateRunning}}
			d := &Driver{API: inspected{listed{containers: &containers}, "sb", l}, StateDir: tc.state}

			list, err := d.List(t.Context())
			assert.NilError(t, err)
			assert.Assert(t, is.Len(list, 1))
			assert.Equal(t, list[0].OtherClient, tc.other)

			sb, err := d.Lookup(t.Context(), "sb")
			if tc.other == "" {
				assert.NilError(t, err)
				assert.Equal(t, sb.State, lifecycle.Running)
				assert.Equal(t, sb.Client, tc.labels[engine.LabelClient])
				return
			}
			assert.Error(t, err, "sandbox sb belongs to another client, "+tc.other)
			assert.Check(t, is.Contains(strings.Join(hint.Of(err), "\n"), `"docker ralph clean --discard-commits sb"`))
			found, is := lifecycle.SandboxOfOtherClient(err)
			assert.Assert(t, is)
			assert.Equal(t, found.Root, spec.Root)
			assert.Equal(t, found.State, lifecycle.Running)
		})
	}
}

// The volumes of another client's sandbox may have the only copy of its commits.
func TestVolumesOfAnotherClientAreKept(t *testing.T) {
	for _, name := range []string{gitVolume("sb"), cloneVolume("sb")} {
		spec := gitSpec(true)
		l := theirs(labels(spec))
		api := blind{volumes: map[string]volume.Volume{name: {Name: name, Labels: l}}}
		d := &Driver{API: api, StateDir: t.TempDir()}
		assert.NilError(t, gitsync.MarkEmpty(d.StateDir, "sb")) // of an earlier sandbox of ours
		own := labels(spec)
		labelClient(own, "OURS")

		_, err := d.createGit(t.Context(), spec, own)
		assert.Error(t, err, "volume "+name+" belongs to another client, "+theirName)
		assert.Check(t, is.Contains(strings.Join(hint.Of(err), "\n"), "if that client is gone, remove it"))
		if name == gitVolume("sb") {
			assert.NilError(t, d.removeUnusedGit(t.Context(), spec))
		}
		_, kept := api.volumes[name]
		assert.Assert(t, kept)
		_, err = d.HasVolume(t.Context(), name)
		_, foreign := errors.AsType[*lifecycle.ForeignError](err)
		assert.Assert(t, foreign)
	}

	sockets := socketsVolume("sb")
	api := blind{volumes: map[string]volume.Volume{sockets: {Name: sockets, Labels: engine.PartLabels("sb", theirID, roleSockets)}}}
	err := (&Driver{API: api, StateDir: t.TempDir()}).createSockets(t.Context(), "sb", "OURS")
	assert.Error(t, err, "volume "+sockets+" belongs to another client, "+theirID)
}

// Clients with a repository at the same path do not share its caches.
func TestClientsShareNoCache(t *testing.T) {
	api := blind{volumes: map[string]volume.Volume{}}
	spec := gitSpec(true)
	spec.Cache = "/src"
	used := map[string]bool{}
	for range 3 {
		d := &Driver{API: api, StateDir: t.TempDir()}
		id, err := scopes.EnsureClientID(d.StateDir)
		assert.NilError(t, err)
		for range 2 {
			l := labels(spec)
			labelClient(l, id)
			mounts, err := d.createCache(t.Context(), spec, l)
			assert.NilError(t, err)
			used[mounts[0].Source] = true
		}
	}
	assert.Assert(t, is.Len(used, 3))
}

func TestOrphansOfAnotherClientAreKept(t *testing.T) {
	old := time.Now().Add(-2 * time.Hour).Unix()
	containers := []container.Summary{
		{ID: "ours", Names: []string{"/a.egress"}, Labels: engine.PartLabels("a", "", roleProxy), Created: old},
		{ID: "theirs", Names: []string{"/b.egress"}, Labels: engine.PartLabels("b", theirID, roleProxy), Created: old},
	}
	d := &Driver{API: listed{containers: &containers}, StateDir: t.TempDir()}
	removed, err := d.SweepOrphans(t.Context(), time.Hour)
	assert.NilError(t, err)
	assert.DeepEqual(t, removed, []string{"a.egress"})

	// They are in the way of a sandbox of that name, and go with that of their client.
	assert.NilError(t, d.removeResources(t.Context(), lifecycle.Sandbox{Name: "b"}))
	assert.Assert(t, is.Len(containers, 1))
	proxy := inspected{listed{containers: &containers}, "b.egress", containers[0].Labels}
	err = (&Driver{API: proxy, StateDir: t.TempDir()}).RemoveProxy(t.Context(), lifecycle.Sandbox{Name: "b"})
	assert.ErrorContains(t, err, "container b.egress belongs to another client, "+theirID)
	assert.NilError(t, d.removeResources(t.Context(), lifecycle.Sandbox{Name: "b", Client: theirID}))
	assert.Assert(t, is.Len(containers, 0))
}
