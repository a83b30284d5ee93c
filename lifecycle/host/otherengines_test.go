package host

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// silentEngine is an engine whose connection was cut: it does not answer.
type silentEngine struct{ fakeEngine }

func (*silentEngine) ContainerList(ctx context.Context, _ client.ContainerListOptions) (list client.ContainerListResult, err error) {
	<-ctx.Done()
	return list, ctx.Err()
}

func (*silentEngine) ContainerInspect(ctx context.Context, _ string, _ client.ContainerInspectOptions) (found client.ContainerInspectResult, err error) {
	<-ctx.Done()
	return found, ctx.Err()
}

// What describes sandboxes does so without an engine, in time.
func TestSilentEngine(t *testing.T) {
	for _, tc := range []struct {
		name    string
		connect func(context.Context) (API, error)
	}{
		{"connected", func(context.Context) (API, error) { return &silentEngine{fakeEngine{engine: laptop}}, nil }},
		{"not connected", func(ctx context.Context) (API, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, stderr := onLaptop(t)
				h.Engine = func() (API, error) { return tc.connect(t.Context()) }
				assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: laptop, Root: "/src", Agent: "claude"}))
				markKnown(t, h, "box")
				all, err := h.Sandboxes(t.Context(), h.Connect())
				assert.ErrorIs(t, err, errNoAnswer)
				assert.Assert(t, is.Len(all, 1))
				one, err := h.LocateOrRecorded(t.Context(), "box")
				assert.NilError(t, err)
				for _, l := range []Located{all[0], one} {
					assert.Equal(t, l.Sandbox.State, lifecycle.Unknown)
					assert.Equal(t, l.Sandbox.Agent, "claude")
				}
				assert.Equal(t, stderr.String(), "Warning: inspecting sandbox box: the engine does not answer\n")
			})
		})
	}
}

func TestSandboxIsDescribedWhateverEngineIsSelected(t *testing.T) {
	h, _ := onLaptop(t, &fakeEngine{engine: big, container: "box"})
	h.SelectedBy = "DOCKER_HOST"
	assert.NilError(t, h.SaveEngine("box", EngineRecord{Engine: big}))
	markKnown(t, h, "box")
	_, err := h.Locate(t.Context(), "box")
	assert.ErrorContains(t, err, "is on engine big")
	l, err := h.LocateOrRecorded(t.Context(), "box")
	assert.NilError(t, err)
	assert.Equal(t, l.Sandbox.State, lifecycle.Running)
	assert.Assert(t, l.Backend.Engine.Same(big))
}

func TestAllRecorded(t *testing.T) {
	h, _ := onLaptop(t)
	for _, name := range []string{"b", "a"} {
		assert.NilError(t, h.SaveEngine(name, EngineRecord{Engine: big, Root: "/src"}))
		markKnown(t, h, name)
	}
	assert.NilError(t, h.SaveEngine("removed", EngineRecord{Engine: big, Root: "/src"}))
	all, err := h.AllRecorded()
	assert.NilError(t, err)
	var names []string
	for _, sb := range all {
		names = append(names, sb.Name+" "+sb.Root)
	}
	assert.DeepEqual(t, names, []string{"a /src", "b /src"})
}
