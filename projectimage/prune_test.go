package projectimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/containerd/errdefs"
	"gotest.tools/v3/assert"
)

func TestUnused(t *testing.T) {
	agent := Stored{ID: "1", Kind: "agent", Tags: []string{"agent:1"}}
	layer := Stored{ID: "2", Kind: "project", Tags: []string{"layer:2", "sandbox:2"}, Base: "agent:1", BaseID: "1"}
	rebuilt := Stored{ID: "3", Kind: "agent", Tags: []string{"agent:1"}} // in the place of the first one
	was := Stored{ID: "1", Kind: "agent"}
	fit := Stored{ID: "4", Kind: "user-mapped", Tags: []string{"user-mapped:4"}, Origin: "2"}
	use := func(s Stored) Stored { s.UsedBy = []string{"box"}; return s }
	name := func(s Stored) Stored { s.Foreign = []string{"mine:1"}; return s }
	for _, tc := range []struct {
		name   string
		all    []Stored
		needed []string
		want   []string
	}{
		{"nothing", nil, nil, nil},
		{"all", []Stored{agent, layer}, nil, []string{"1", "2"}},
		{"used agent", []Stored{use(agent), layer}, nil, []string{"2"}},
		{"used layer keeps its agent", []Stored{agent, use(layer)}, nil, nil},
		{"needed layer keeps its agent", []Stored{agent, layer}, []string{"layer:2"}, nil},
		{"needed by its other name", []Stored{agent, layer}, []string{"sandbox:2"}, nil},
		{"needed agent", []Stored{agent, layer}, []string{"agent:1"}, []string{"2"}},
		{"not built yet", []Stored{agent, layer}, []string{"layer:9"}, []string{"1", "2"}},
		{"somebody's name", []Stored{name(agent), layer}, nil, []string{"2"}},
		{"somebody's name on a layer", []Stored{agent, name(layer)}, nil, nil},
		{"rebuilt agent", []Stored{was, rebuilt, use(layer)}, nil, nil},
		{"rebuilt agent, unused", []Stored{was, rebuilt, layer}, []string{"agent:1"}, []string{"1", "2"}},
		{"user-mapped", []Stored{fit, layer}, nil, []string{"4", "2"}},
		{"user-mapped, used", []Stored{use(fit), layer}, nil, []string{"2"}}, // List has the layer used too
		{"user-mapped from a needed one", []Stored{fit, layer}, []string{"layer:2"}, nil},
		{"user-mapped from one that is not ours", []Stored{fit}, nil, []string{"4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, s := range Unused(tc.all, tc.needed) {
				got = append(got, s.ID)
			}
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

const (
	pruneTag   = "agent-loop-sandbox-shell:v00000001"
	pruneAlias = "docker-ralph/sandbox:111111111111"
)

func prunable() Stored {
	return Stored{ID: "sha256:1", Kind: kindAgent, Agent: "shell", Tags: []string{pruneTag, pruneAlias}}
}

func TestPrune(t *testing.T) {
	images := func() map[string]string {
		return map[string]string{pruneTag: "sha256:1", pruneAlias: "sha256:1", "mine": "sha256:2"}
	}
	t.Run("removes every name, the own one last", func(t *testing.T) {
		b, engine, _ := newFake(t, images())
		assert.NilError(t, b.recordBuilt(Image{ID: "sha256:1"}))
		done, err := b.Prune(t.Context(), []Stored{prunable()})
		assert.NilError(t, err)
		assert.DeepEqual(t, done, Pruned{Removed: []Stored{prunable()}, Freed: 20})
		assert.DeepEqual(t, engine.calls, []string{"inspect " + pruneAlias, "rmi " + pruneAlias, "inspect " + pruneTag, "rmi " + pruneTag})
		_, err = os.Stat(b.builtPath("sha256:1"))
		assert.Assert(t, os.IsNotExist(err))
	})
	t.Run("first what was made from others", func(t *testing.T) {
		b, engine, _ := newFake(t, map[string]string{"a": "1", "p": "2", "f": "3"})
		_, err := b.Prune(t.Context(), []Stored{
			{ID: "1", Kind: kindAgent, Tags: []string{"a"}}, {ID: "2", Kind: kindProject, Tags: []string{"p"}}, {ID: "3", Kind: kindUserMapped, Tags: []string{"f"}},
		})
		assert.NilError(t, err)
		assert.DeepEqual(t, engine.calls, []string{"inspect f", "rmi f", "inspect p", "rmi p", "inspect a", "rmi a"})
	})
	t.Run("without a name", func(t *testing.T) {
		b, engine, _ := newFake(t, map[string]string{"sha256:1": "sha256:1"})
		done, err := b.Prune(t.Context(), []Stored{{ID: "sha256:1", Kind: kindAgent}})
		assert.NilError(t, err)
		assert.Equal(t, len(done.Removed), 1)
		assert.DeepEqual(t, engine.calls, []string{"inspect sha256:1", "rmi sha256:1"})
	})
	t.Run("gone already", func(t *testing.T) {
		b, _, _ := newFake(t, nil)
		done, err := b.Prune(t.Context(), []Stored{prunable()})
		assert.NilError(t, err)
		assert.Equal(t, len(done.Removed), 1)
	})
	t.Run("at work", func(t *testing.T) {
		for name, take := range map[string]func(b *Builder) (func(), error){
			"being built": func(b *Builder) (func(), error) { return b.lock(t.Context(), pruneTag) },
			"built on":    func(b *Builder) (func(), error) { return b.share(t.Context(), pruneTag) },
		} {
			t.Run(name, func(t *testing.T) {
				b, engine, _ := newFake(t, images())
				unlock, err := take(b)
				assert.NilError(t, err)
				defer unlock()
				done, err := b.Prune(t.Context(), []Stored{prunable()})
				assert.NilError(t, err)
				assert.Equal(t, len(done.Removed), 0)
				assert.Equal(t, done.Kept[0].Why, "it is used by a build")
				assert.Equal(t, len(engine.calls), 0)
			})
		}
	})
	t.Run("built anew in the meantime", func(t *testing.T) {
		b, engine, _ := newFake(t, map[string]string{pruneTag: "sha256:9"})
		done, err := b.Prune(t.Context(), []Stored{prunable()})
		assert.NilError(t, err)
		assert.Equal(t, done.Kept[0].Why, "it was rebuilt")
		assert.Equal(t, engine.images[pruneTag], "sha256:9")
	})
	t.Run("used in the meantime", func(t *testing.T) {
		b, engine, _ := newFake(t, images())
		engine.removeErr = fmt.Errorf("container c uses it: %w", errdefs.ErrConflict)
		done, err := b.Prune(t.Context(), []Stored{prunable()})
		assert.NilError(t, err)
		assert.Equal(t, done.Kept[0].Why, "it is in use: container c uses it: conflict")
	})
	t.Run("goes on after an error", func(t *testing.T) {
		b, engine, _ := newFake(t, images())
		engine.removeErr = errors.New("disk on fire")
		done, err := b.Prune(t.Context(), []Stored{prunable(), {ID: "sha256:2", Tags: []string{"gone:1"}}})
		assert.Error(t, err, `removing image "`+pruneAlias+`": disk on fire`)
		assert.Equal(t, len(done.Removed), 1)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b, _, _ := newFake(t, images())
		done, err := b.Prune(ctx, []Stored{prunable(), prunable()})
		assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
		assert.Equal(t, len(done.Removed), 0)
	})
}
