package programs

import (
	"context"
	"crypto/rand"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

func TestImagesOfEarlierVersionsAreRemoved(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		api := e.Client(t)
		i := &Installer{API: api}
		repository := "docker-ralph/test-" + strings.ToLower(rand.Text()[:10])
		there := func() (versions []string) {
			all, err := api.ImageList(t.Context(), client.ImageListOptions{Filters: make(client.Filters).Add("reference", repository)})
			assert.NilError(t, err)
			for _, image := range all.Items {
				for _, tag := range image.RepoTags {
					versions = append(versions, strings.TrimPrefix(tag, repository+":"))
				}
			}
			slices.Sort(versions)
			return versions
		}
		for _, version := range []string{"first", "now", "used"} {
			tag := repository + ":" + version
			assert.NilError(t, i.loadImage(t.Context(), tag, runtime.GOARCH, "program", []byte(rand.Text())))
			assert.NilError(t, i.recordAge(t.Context(), tag))
			t.Cleanup(func() {
				_, err := api.ImageRemove(context.WithoutCancel(t.Context()), tag, client.ImageRemoveOptions{Force: true})
				assert.Check(t, err == nil || errdefs.IsNotFound(err), err)
			})
		}
		user, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: repository + ":used", Entrypoint: []string{"/program"}}})
		assert.NilError(t, err)
		t.Cleanup(func() { assert.Check(t, engine.RemoveContainer(context.WithoutCancel(t.Context()), i.API, user.ID)) })
		foreign, err := api.ContainerCommit(t.Context(), user.ID, client.ContainerCommitOptions{
			Reference: repository + ":foreign", Config: &container.Config{Labels: map[string]string{engine.LabelCreatedBy: "other"}},
		})
		assert.NilError(t, err)
		t.Cleanup(func() {
			_, _ = api.ImageRemove(context.WithoutCancel(t.Context()), foreign.ID, client.ImageRemoveOptions{Force: true})
		})

		now := repository + ":now"
		assert.NilError(t, i.removeOldPrograms(t.Context(), now, time.Hour))
		assert.Check(t, is.DeepEqual(there(), []string{"first", "foreign", "now", "used"}), "younger than the limit")
		assert.NilError(t, i.removeOldPrograms(t.Context(), now, 0))
		assert.Check(t, is.DeepEqual(there(), []string{"foreign", "now", "used"}))
	})
}
