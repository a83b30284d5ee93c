package images

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

func TestStoredStatus(t *testing.T) {
	agent := projectimage.Stored{ID: "sha256:1", Kind: "agent", Tags: []string{"agent-loop-sandbox-shell:v00000001"}}
	layer := projectimage.Stored{ID: "sha256:2", Kind: "project", Tags: []string{"agent-loop-sandbox-shell-shop:v00000002"}, Base: agent.Tags[0]}
	used, named, mapped := layer, agent, layer
	used.UsedBy = []string{"box"}
	named.Foreign = []string{"mine:1"}
	mapped.ID, mapped.Tags, mapped.Origin = "sha256:3", []string{"docker-ralph/user-mapped:2-1-1"}, "2"
	for _, tc := range []struct {
		name   string
		image  projectimage.Stored
		all    []projectimage.Stored
		needed []string
		want   string
	}{
		{"unused", agent, []projectimage.Stored{agent}, nil, "unused"},
		{"in use", used, []projectimage.Stored{used}, nil, "in use"},
		{"base of this project's", agent, []projectimage.Stored{agent}, agent.Tags, "this project's image is built on it"},
		{"base of another project's", agent, []projectimage.Stored{agent, used}, nil, "an image in use is built on it"},
		{"with a foreign tag", named, []projectimage.Stored{named}, nil, "also called mine:1"},
		{"mapped", mapped, []projectimage.Stored{layer, mapped}, layer.Tags, "made from this project's image"},
		{"mapped, unused", mapped, []projectimage.Stored{layer, mapped}, nil, "unused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := storedStatus(tc.image, tc.needed, projectimage.Unused(tc.all, tc.needed))
			assert.Equal(t, status.Status, tc.want)
			assert.Equal(t, status.Change, "")
			assert.Assert(t, status.UsedBy != nil, "an empty list in JSON")
		})
	}
}

func TestOtherImage(t *testing.T) {
	all := []projectimage.Stored{
		{ID: "sha256:1", Tags: []string{"a:1", "a:2"}, UsedBy: []string{"box"}},
		{ID: "sha256:2", Tags: []string{"a:3"}},
		{ID: "sha256:3", Tags: []string{"docker-ralph/user-mapped:1-1-1"}, Origin: "1", UsedBy: []string{"box"}},
	}
	h := host.Host{StateDir: t.TempDir()}
	for ref, want := range map[string]string{"a:1": "", "a:2": "", "a:3": "a:1"} {
		assert.Equal(t, otherImage(h, "box", config.DriverContainer, ref, all), want)
	}
	assert.Equal(t, otherImage(h, "none", config.DriverContainer, "a:3", all), "")
	assert.Equal(t, otherImage(h, "", config.DriverContainer, "a:3", all), "")
	assert.Equal(t, otherImage(h, "box", config.DriverSbx, "a:3", all), "")
}

func TestConfirmPrune(t *testing.T) {
	images := []projectimage.Stored{{ID: "sha256:1", Tags: []string{"a:1"}, Size: 2e6}, {ID: "sha256:0123456789abcdef", Size: 3e9}}
	var stderr bytes.Buffer
	h := host.Host{Stderr: &stderr}
	assert.NilError(t, confirmPrune(t.Context(), h, images, true))
	assert.Error(t, confirmPrune(t.Context(), h, images, false),
		"refusing to remove 2 images without confirmation")
	for _, tc := range []struct {
		yes  bool
		err  error
		want string
	}{{true, nil, ""}, {false, nil, "canceled"}, {false, errors.New("gone"), "gone"}} {
		stderr.Reset()
		h.Confirm = func(_ context.Context, question string) (bool, error) {
			assert.Equal(t, question, "Remove 2 images?")
			return tc.yes, tc.err
		}
		err := confirmPrune(t.Context(), h, images, false)
		assert.Assert(t, tc.want == "" && err == nil || err != nil && err.Error() == tc.want, "%v", err)
		assert.Equal(t, stderr.String(), "a:1 (2MB)\n0123456789ab (3GB)\n")
	}
}

func TestPruneNeedsTheImagesOfTheScope(t *testing.T) {
	dir := t.TempDir()
	h := host.Host{
		Dir: dir, StateDir: t.TempDir(), Stderr: &bytes.Buffer{},
		Engine:  func() (host.API, error) { return nil, errors.New("no engine") },
		Confirm: func(context.Context, string) (bool, error) { return true, errors.New("asked") },
	}
	_, err := Prune(t.Context(), h, PruneOptions{})
	assert.Error(t, err, "no engine", "without a repository, the user's own configuration says it")

	assert.NilError(t, os.WriteFile(filepath.Join(h.StateDir, "config.toml"), []byte("[agent]\nname = \"nobody\"\n"), 0o600))
	_, err = Prune(t.Context(), h, PruneOptions{})
	assert.Check(t, is.ErrorContains(err, "resolving the images of this project: "))
	_, err = Prune(t.Context(), h, PruneOptions{All: true})
	assert.Error(t, err, "no engine")
}
