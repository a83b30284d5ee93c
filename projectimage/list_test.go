package projectimage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"gotest.tools/v3/assert"
)

// summary is an image as the engine lists it.
func summary(id string, labels map[string]string, tags ...string) image.Summary {
	all := map[string]string{labelCreatedBy: createdBy}
	for name, value := range labels {
		all[labelPrefix+name] = value
	}
	return image.Summary{ID: "sha256:" + strings.Repeat(id, 64), Labels: all, RepoTags: tags}
}

func TestListTakesOnlyOurOwn(t *testing.T) {
	shell := map[string]string{"agent": "shell", "kind": "agent", "base": "debian:1", "base-id": "sha256:b"}
	shop := map[string]string{"agent": "shell", "kind": "project", "project": "shop", "base": "agent-loop-sandbox-shell:v00000001"}
	handed := "docker-ralph/sandbox:" + strings.Repeat("6", 12)
	b, engine, _ := newFake(t, nil)
	assert.NilError(t, b.recordBuilt(Image{ID: "sha256:" + strings.Repeat("8", 64)}))
	engine.summaries = []image.Summary{
		summary("1", shell, "agent-loop-sandbox-shell:v00000001"),
		summary("2", shell, "agent-loop-sandbox-shell:v00000002", "mine:1"),
		summary("3", shop, "agent-loop-sandbox-shell-shop:v00000003"),
		summary("4", map[string]string{"kind": "agent", "agent": "claude"}, "agent-loop-sandbox-claude:v00000004"),
		summary("5", shell, "shop:latest"),                             // built on ours by somebody
		summary("6", shell, handed),                                    // given to sbx; its name was taken
		summary("7", shell, "docker-ralph/sandbox:"+"0123456789ab"),    // the name of another image
		summary("8", shell, "<none>:<none>"),                           // built here; its name was taken
		summary("9", shell),                                            // built by somebody
		summary("a", shop, "agent-loop-sandbox-shell-shop:latest"),     // tagged by somebody
		summary("b", shell, "agent-loop-sandbox-shell-shop:v00000003"), // labels of another image
		summary("c", shop, "docker-ralph/user-mapped:333333333333-1000-100-home"),
		summary("d", nil, "docker-ralph/user-mapped:dddddddddddd-0-0-home"), // of a given image
		summary("e", nil, "docker-ralph/guest:0123456789ab"),                // ralph itself
		summary("f", nil, "agent-loop-sandbox-:v00000000"),
	}
	engine.containers = []container.Summary{
		{ID: strings.Repeat("c", 64), Names: []string{"/z"}, ImageID: engine.summaries[0].ID},
		{ID: strings.Repeat("d", 64), Names: []string{"/y", "/other/alias"}, ImageID: engine.summaries[0].ID},
		{ID: strings.Repeat("e", 64), ImageID: engine.summaries[3].ID},
		{ID: strings.Repeat("f", 64), Names: []string{"/x"}, ImageID: "sha256:" + strings.Repeat("c", 64)},
	}
	all, err := b.List(t.Context())
	assert.NilError(t, err)
	var got []string
	for _, s := range all {
		got = append(got, strings.Join([]string{
			s.ID[7:8], s.Name(), s.Kind, s.Agent, s.Project, strings.Join(s.Foreign, ","), strings.Join(s.UsedBy, ","),
		}, " "))
	}
	assert.DeepEqual(t, got, []string{
		"6 666666666666 agent shell   ",
		"8 888888888888 agent shell   ",
		"4 agent-loop-sandbox-claude:v00000004 agent claude   eeeeeeeeeeee",
		"3 agent-loop-sandbox-shell-shop:v00000003 project shell shop  x",
		"1 agent-loop-sandbox-shell:v00000001 agent shell   y,z",
		"2 agent-loop-sandbox-shell:v00000002 agent shell  mine:1 ",
		"c docker-ralph/user-mapped:333333333333-1000-100-home user-mapped shell shop  x",
		"d docker-ralph/user-mapped:dddddddddddd-0-0-home user-mapped    ",
	})
	assert.DeepEqual(t, all[0].Tags, []string{handed})
	assert.Equal(t, all[4].Base+all[4].BaseID, "debian:1sha256:b")
}

func TestListCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, _, _ := newFake(t, nil)
	_, err := b.List(ctx)
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
}

func TestFind(t *testing.T) {
	b, engine, _ := newFake(t, map[string]string{"mine:1": "sha256:1", "mine:2": "sha256:2"})
	engine.containers = []container.Summary{{ID: "c", Names: []string{"/box"}, ImageID: "sha256:1"}}
	got, found, err := b.Find(t.Context(), "mine:1")
	assert.NilError(t, err)
	assert.Assert(t, found)
	assert.DeepEqual(t, got, Stored{ID: "sha256:1", UsedBy: []string{"box"}})
	got, found, err = b.Find(t.Context(), "mine:2")
	assert.NilError(t, err)
	assert.Assert(t, found && got.UsedBy == nil)
	_, found, err = b.Find(t.Context(), "mine:3")
	assert.NilError(t, err)
	assert.Assert(t, !found)
}
