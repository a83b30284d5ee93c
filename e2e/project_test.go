//go:build unix

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
)

// asksFor makes the repository ask for a program called greet in its sandboxes.
func (w *world) asksFor(t *testing.T, greeting string) {
	t.Helper()
	folder := filepath.Join(w.repo, ".agent-loop")
	w.write(t, filepath.Join(folder, "Dockerfile.sandbox"),
		"ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nCOPY greet /usr/local/bin/\nRUN chmod 755 /usr/local/bin/greet\nUSER agent\n")
	w.write(t, filepath.Join(folder, "greet"), "#!/bin/sh\necho "+greeting+"\n")
	w.own(t, folder)
	t.Cleanup(func() { w.removeProjectImages(t) })
}

// removeProjectImages removes the images with the repository's name.
func (w *world) removeProjectImages(t *testing.T) {
	t.Helper()
	ctx, api := context.WithoutCancel(t.Context()), w.engine.Client(t)
	w.removeSandboxes(t)
	for range 2 { // those that are built on others first
		images, err := api.ImageList(ctx, client.ImageListOptions{
			Filters: make(client.Filters).Add("label", labelPrefix+"project="+filepath.Base(w.repo)),
		})
		assert.NilError(t, err)
		for _, image := range images.Items {
			_, _ = api.ImageRemove(ctx, image.ID, client.ImageRemoveOptions{Force: true})
		}
	}
}

func TestTheSandboxHasWhatTheProjectNeeds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.asksFor(t, "hello")
		w.plan(t, task{ID: "a", Title: "Greet", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "hello\n")
		first := w.container(t)
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell-`+filepath.Base(w.repo)+`:v[0-9a-f]{8}$`, madeFrom(first)))

		// A linked work tree takes what the main one asks for, whatever its own branch says.
		linked := *w
		linked.repo = filepath.Join(w.dir, "linked")
		w.git(t, "worktree", "add", "-q", "-b", "other", linked.repo)
		w.write(t, filepath.Join(linked.repo, ".agent-loop", "dependencies"), "$(not a package)\n")
		linked.plan(t, task{ID: "b", Title: "Greet there", Steps: []string{"greet >greeting"}})
		res := linked.ralph(t, "build").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "#1 "), "it was built again: %s", res.stderr)
		assert.Equal(t, linked.read(t, "greeting"), "hello\n")

		// What is copied into the image counts as much as the Dockerfile.
		w.removeSandboxes(t)
		w.asksFor(t, "good evening")
		w.plan(t, task{ID: "c", Title: "Greet again", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "good evening\n")
		assert.Check(t, madeFrom(w.container(t)) != madeFrom(first))
	})
}

func TestAChangedProjectNeedsANewSandbox(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ok(t, "task", "list")
		before := w.sandbox(t).ID
		w.asksFor(t, "hello")
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no longer matches the configuration (image agent-loop-sandbox-shell-"))
		assert.Check(t, is.Contains(res.stderr, "--recreate"))
		assert.Equal(t, w.sandbox(t).ID, before)
		w.ok(t, "--recreate", "task", "list")
		assert.Check(t, w.sandbox(t).ID != before)
	})
}

func TestMistakesInWhatTheProjectAsksFor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		file := filepath.Join(w.repo, ".agent-loop", "dependencies")
		w.write(t, file, "jq\n\nfiglet; touch /tmp/mine # no\n")
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: "+file+":3:"))
		assert.Check(t, is.Contains(res.stderr, "figlet; touch /tmp/mine"))
		assert.Equal(t, len(w.sandboxes(t)), 0)

		// An image that is used as it is has no such layer.
		w.setenv("DOCKER_SANDBOX_IMAGE", os.Getenv("RALPH_TEST_BASE"))
		w.ok(t, "task", "list")
		assert.Equal(t, madeFrom(w.container(t)), os.Getenv("RALPH_TEST_BASE"))
	})
}

func TestAMicroVMHasWhatTheProjectNeeds(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.asksFor(t, "hello")
		if w.driver == config.DriverDockerSandbox {
			res := w.ralph(t, "task", "list").expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, "Warning: "+filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox")+" has no effect: the image "))
			return
		}
		w.plan(t, task{ID: "a", Title: "Greet", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "hello\n")
	})
}
