package projectimage

import (
	"context"
	"errors"
	"testing"

	"github.com/docker/cli/cli/config/types"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func rebuild(req *Request) { req.Rebuild = true }

// TestEngineRebuild rebuilds the agent image and the layer of one project, and follows
// what that means for another project of this machine and for another machine. It is
// one test, because rebuilds without the cache take long.
func TestEngineRebuild(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		e.takeOwnBase(t)
		agentReq := Request{Agent: "shell", Base: e.base}
		shop, store := e.custom(t, "RUN cat /proc/sys/kernel/random/uuid >/made", nil), e.custom(t, "RUN touch /store", nil)
		store.moveTo(t, "store")
		store.LockDir = shop.LockDir
		elsewhere := *shop
		elsewhere.Builder = &Builder{Engine: e, LockDir: t.TempDir()}
		agentID := func() string {
			found, err := e.Client.ImageInspect(t.Context(), refOf(t, agentReq))
			assert.NilError(t, err)
			return found.ID
		}
		made := func(image Image) string { return e.run(t, image.Ref, "cat /made") }

		first := shop.mustDispatch(t)
		agent, content := agentID(), made(first)
		before := store.mustDispatch(t)
		assert.Assert(t, !store.mustDispatch(t).Built)
		assert.DeepEqual(t, elsewhere.mustDispatch(t), Image{Ref: first.Ref, ID: first.ID})

		_, err := e.ImageRemove(t.Context(), refOf(t, agentReq), client.ImageRemoveOptions{})
		assert.NilError(t, err)
		cached, err := shop.Ensure(t.Context(), agentReq)
		assert.NilError(t, err)
		assert.Assert(t, cached.Built)
		assert.Equal(t, cached.ID, agent, "a build from the cache gives the same image")

		// The base exists on this engine only, so pulling it fails.
		counted := &countedEngine{testEngine: e}
		shop.Engine = counted
		rebuilt := shop.mustDispatch(t, rebuild)
		assert.Assert(t, rebuilt.Built)
		assert.Equal(t, rebuilt.Ref, first.Ref)
		assert.Assert(t, cmp.Contains(counted.calls, "pull "+e.base))
		assert.Assert(t, cmp.Contains(shop.out.String(), "cannot pull base image "+e.base+", using the local one: "))
		assert.Assert(t, agentID() != agent, "the steps of the agent image ran again")
		assert.Assert(t, made(rebuilt) != content, "the steps of the layer ran again")

		after := store.mustDispatch(t)
		assert.Assert(t, after.Built, "its agent image has changed")
		assert.Equal(t, after.Ref, before.Ref)
		for _, w := range []*workshop{shop, store} {
			counted = &countedEngine{testEngine: e}
			w.Engine = counted
			assert.Assert(t, !w.mustDispatch(t).Built)
			assert.Assert(t, cmp.Len(counted.calls, 2))
		}

		// Another machine uses the layer.
		assert.DeepEqual(t, elsewhere.mustDispatch(t), Image{Ref: rebuilt.Ref, ID: rebuilt.ID})

		// A layer needs its agent image for the next change only.
		_, err = e.ImageRemove(t.Context(), refOf(t, agentReq), client.ImageRemoveOptions{})
		assert.NilError(t, err)
		assert.Assert(t, !store.mustDispatch(t).Built)
		writeFile(t, projectPath(store.root, sandboxDockerfile), head+"USER root\nRUN touch /bigger-store\nUSER agent\n")
		changed := store.mustDispatch(t)
		assert.Assert(t, changed.Built)
		assert.Equal(t, e.run(t, changed.Ref, "ls /bigger-store; id -un"), "/bigger-store\nagent")
	})
}

func TestEngineRebuildPullsTheBase(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, "RUN true", nil)
		// What the engine has under this name is not what the registry has.
		w.base = e.startRegistry(t) + "/team/base:1"
		w.Auth = func(context.Context, string, []string, authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			return types.AuthConfig{Username: "me", Password: "pw"}, nil
		}
		_, err := e.ImageTag(t.Context(), client.ImageTagOptions{Source: e.base, Target: w.base})
		assert.NilError(t, err)
		e.removeAfter(t, w.base)
		baseID := func() string {
			found, err := e.Client.ImageInspect(t.Context(), w.base)
			assert.NilError(t, err)
			return found.ID
		}
		stale := baseID()
		w.mustDispatch(t)
		assert.Equal(t, baseID(), stale)

		_, err = w.dispatch(t, rebuild)
		_, failed := errors.AsType[*BuildError](err)
		assert.Assert(t, failed, "the registry's image has no shell, but: %v", err)
		assert.Assert(t, baseID() != stale)
	})
}
