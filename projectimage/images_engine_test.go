package projectimage

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"
)

// projectWith makes a project that asks for these instructions.
func projectWith(t *testing.T, instructions string) *Project {
	t.Helper()
	root := filepath.Join(t.TempDir(), "p"+strings.ToLower(uniqueName("")[1:9]))
	assert.NilError(t, os.MkdirAll(filepath.Join(root, projectFolder), 0o755))
	text := "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n" + instructions + "\nUSER agent\n"
	assert.NilError(t, os.WriteFile(filepath.Join(root, projectFolder, sandboxDockerfile), []byte(text), 0o644))
	p, found, err := FindProject(t.Context(), root)
	assert.NilError(t, err)
	assert.Assert(t, found)
	p.Approved = true
	return &p
}

// box makes a container that is never started.
func (e *testEngine) box(t *testing.T, image string) (name string) {
	t.Helper()
	name = "ralph-test-" + strings.ReplaceAll(uniqueName("box"), ":", "-")
	made, err := e.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: name, Config: &container.Config{Image: image}})
	assert.NilError(t, err)
	t.Cleanup(func() { e.unbox(context.WithoutCancel(t.Context()), made.ID) })
	return name
}

func (e *testEngine) unbox(ctx context.Context, id string) {
	_, _ = e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

// stored returns those of the listed images that have one of the IDs.
func (e *testEngine) stored(t *testing.T, b *Builder, ids ...string) []Stored {
	t.Helper()
	all, err := b.List(t.Context())
	assert.NilError(t, err)
	var some []Stored
	for _, id := range ids {
		for _, s := range all {
			if s.ID == id {
				some = append(some, s)
			}
		}
	}
	return some
}

// TestEngineImagesFromBuildToPrune follows the images of one project.
func TestEngineImagesFromBuildToPrune(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		req := Request{Agent: "shell", Base: e.base, Project: projectWith(t, "RUN echo "+e.base+" >/made-of")}
		plan, err := b.Plan(t.Context(), req, nil)
		assert.NilError(t, err)
		assert.Equal(t, plan.Why, "not built yet")

		layer, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err, "%s", out)
		tags, err := Needs(req)
		assert.NilError(t, err)
		agent, found, err := b.lookup(t.Context(), tags[0])
		assert.NilError(t, err)
		assert.Assert(t, found)
		e.removeAfter(t, agent.Ref)
		e.removeAfter(t, layer.Ref)

		both := e.stored(t, b, agent.ID, layer.ID)
		assert.Equal(t, len(both), 2)
		assert.Equal(t, both[0].Name()+both[0].Kind+both[0].Base, agent.Ref+kindAgent+e.base)
		assert.Equal(t, both[1].Name()+both[1].Kind+both[1].Base, layer.Ref+kindProject+agent.Ref)
		assert.Equal(t, both[1].Project, projectName(req.Project.Root))
		assert.Equal(t, both[1].BaseID, agent.ID)
		assert.Assert(t, both[1].Size > 1<<20 && time.Since(both[1].Created) < time.Hour)
		plan, err = b.Plan(t.Context(), req, both)
		assert.NilError(t, err)
		assert.Equal(t, plan, Plan{Ref: layer.Ref, Kind: kindProject, Agent: "shell", Project: both[1].Project, Base: agent.Ref, Change: ChangeNone, Why: "up to date"})

		// A container from the image in which the container driver gave the user a
		// name keeps that, the layer, and what it is built on. It need not run.
		made := e.box(t, layer.Ref)
		commit, err := e.ContainerCommit(t.Context(), made, client.ContainerCommitOptions{Reference: userMapped + ":" + shortID(layer.ID) + "-1-1-home"})
		assert.NilError(t, err)
		e.removeAfter(t, commit.ID)
		e.unbox(t.Context(), made)
		box := e.box(t, commit.ID)
		// An image that somebody built on it has its labels, and is not ours.
		others := e.spec(t, "RUN true")
		others.base = layer.Ref
		assert.NilError(t, b.build(t.Context(), others, false), "%s", out)
		other, _, err := b.lookup(t.Context(), others.tag)
		assert.NilError(t, err)
		_, err = e.ImageTag(t.Context(), client.ImageTagOptions{Source: layer.ID, Target: sbxRepository + ":" + shortID(layer.ID)})
		assert.NilError(t, err)

		three := e.stored(t, b, agent.ID, layer.ID, commit.ID, other.ID)
		assert.Equal(t, len(three), 3)
		assert.DeepEqual(t, [][]string{three[0].UsedBy, three[1].UsedBy, three[2].UsedBy}, [][]string{nil, {box}, {box}})
		assert.Equal(t, three[2].Kind+three[2].Base, kindUserMapped+layer.Ref)
		assert.Equal(t, len(Unused(three, nil)), 0)
		done, err := b.Prune(t.Context(), three[2:]) // as if the container had been made just now
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(done.Kept[0].Why, "it is in use: "))

		e.unbox(t.Context(), box)
		three[1].UsedBy, three[2].UsedBy = nil, nil
		unused := Unused(three, nil)
		assert.Equal(t, len(unused), 3)
		done, err = b.Prune(t.Context(), unused)
		assert.NilError(t, err)
		assert.Equal(t, len(done.Removed), 3, "%v", done.Kept)
		for _, ref := range []string{agent.Ref, layer.Ref, commit.ID, sbxRepository + ":" + shortID(layer.ID)} {
			_, found, err = b.lookup(t.Context(), ref)
			assert.NilError(t, err)
			assert.Assert(t, !found, ref)
		}
		_, found, err = b.lookup(t.Context(), others.tag)
		assert.NilError(t, err)
		assert.Assert(t, found, "what somebody built on it works on")
	})
}

// A given image in which a user got a name has no label of an agent.
func TestEngineUserMappedGivenImageIsListed(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		base, err := e.ImageInspect(t.Context(), e.base)
		assert.NilError(t, err)
		commit, err := e.ContainerCommit(t.Context(), e.box(t, e.base), client.ContainerCommitOptions{
			Reference: userMapped + ":" + shortID(base.ID) + "-77-77-home", Changes: []string{"LABEL " + labelCreatedBy + "=" + createdBy},
		})
		assert.NilError(t, err)
		e.removeAfter(t, commit.ID)
		b, _ := e.builder(t)
		found := e.stored(t, b, commit.ID)
		assert.Equal(t, len(found), 1)
		assert.Equal(t, found[0].Kind+found[0].Agent, kindUserMapped)
		assert.Equal(t, len(Unused(found, nil)), 1)
	})
}

// Another image of that name leaves one without a name behind.
func TestEngineReplacedImageIsKnownAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		req := Request{Agent: "shell", Base: e.base}
		first, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err, "%s", out)
		e.removeAfter(t, first.Ref)
		box := e.box(t, first.ID)
		// As another base has another ID.
		assert.NilError(t, b.build(t.Context(), buildSpec{
			tag: first.Ref, base: e.base, dockerfile: []byte("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nLABEL other=" + e.base + "\n"),
		}, false), "%s", out)

		left := e.stored(t, b, first.ID)
		if e.name == "moby" { // engines with the containerd store forget it
			assert.Equal(t, len(left), 0)
			_, found, err := b.lookup(t.Context(), first.ID)
			assert.NilError(t, err)
			assert.Assert(t, !found)
			return
		}
		assert.Equal(t, len(left), 1)
		assert.Equal(t, left[0].Name(), shortID(first.ID))
		assert.DeepEqual(t, left[0].UsedBy, []string{box})
		e.unbox(t.Context(), box)
		done, err := b.Prune(t.Context(), left)
		assert.NilError(t, err)
		assert.Equal(t, len(done.Removed), 1)
		assert.Equal(t, len(e.stored(t, b, first.ID)), 0)
	})
}

// What is being built on an image keeps it.
func TestEnginePruneDuringABuild(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		agent, err := b.Ensure(t.Context(), Request{Agent: "shell", Base: e.base})
		assert.NilError(t, err, "%s", out)
		e.removeAfter(t, agent.Ref)
		all := e.stored(t, b, agent.ID)
		p := projectWith(t, "RUN echo it has begun; sleep 600 # "+e.base)
		ctx, cancel := context.WithCancel(t.Context())
		built := make(chan error)
		go func() {
			_, err := b.Ensure(ctx, Request{Agent: "shell", Base: e.base, Project: p})
			built <- err
		}()
		out.WaitFor(t, " it has begun\n")
		done, err := b.Prune(t.Context(), all)
		cancel()
		assert.Assert(t, errors.Is(<-built, context.Canceled))
		assert.NilError(t, err)
		assert.Equal(t, len(done.Kept), 1)
		assert.Equal(t, done.Kept[0].Why, "it is used by a build")
		assert.Equal(t, len(e.stored(t, b, agent.ID)), 1)

		done, err = b.Prune(t.Context(), all)
		assert.NilError(t, err)
		assert.Equal(t, len(done.Removed), 1)
	})
}

// A secret is there for the step that asks for it, and nowhere else.
func TestEngineSecretsLeaveNoTrace(t *testing.T) {
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		const fromFile, fromEnv = "swordfish-of-the-file", "swordfish-of-the-variable"
		path := filepath.Join(t.TempDir(), "key")
		assert.NilError(t, os.WriteFile(path, []byte(fromFile), 0o600))
		t.Setenv("RALPH_TEST_SECRET", fromEnv)
		b, out := e.builder(t)
		b.Secrets = []Secret{{ID: "key", FilePath: path}, {ID: "word", Env: "RALPH_TEST_SECRET"}}
		// On a small image, which is exported in no time.
		spec := e.spec(t, `RUN for f in /bin/sh /bin/cat /usr/bin/sha256sum $(ldd /bin/sh /bin/cat /usr/bin/sha256sum | grep -o "/[^ :]*" | sort -u); do \
    mkdir -p /small$(dirname $f); cp -L $f /small$f; done
FROM scratch
COPY --from=0 /small /
LABEL searchable=yes
RUN --mount=type=secret,id=key --mount=type=secret,id=word cat /run/secrets/key /run/secrets/word | sha256sum >/told`)
		assert.NilError(t, b.build(t.Context(), spec, true), "%s", out)

		history := icmd.RunCommand("docker", "-H", e.host, "history", "--no-trunc", spec.tag)
		history.Assert(t, icmd.Success)
		inspect := icmd.RunCommand("docker", "-H", e.host, "inspect", spec.tag)
		inspect.Assert(t, icmd.Success)
		saved, err := e.ImageSave(t.Context(), []string{spec.tag})
		assert.NilError(t, err)
		var export bytes.Buffer
		unpack(t, &export, saved)
		assert.NilError(t, saved.Close())
		_, sum, _ := strings.Cut(sha([]byte(fromFile+fromEnv)), ":")
		for _, there := range []string{sum, `"searchable":"yes"`, "told"} {
			assert.Assert(t, bytes.Contains(export.Bytes(), []byte(there)), "%s is not in the export", there)
		}
		for where, text := range map[string]string{"history": history.Stdout(), "configuration": inspect.Stdout(), "progress": out.String(), "export": export.String()} {
			assert.Assert(t, !strings.Contains(text, "swordfish"), where)
		}
	})
}

// unpack writes the names and contents of an archive's files to out, also those
// of the archives in it.
func unpack(t *testing.T, out *bytes.Buffer, archive io.Reader) {
	t.Helper()
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		assert.NilError(t, err)
		content := bufio.NewReader(files)
		_, _ = fmt.Fprintln(out, header.Name)
		if magic, err := content.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
			plain, err := gzip.NewReader(content)
			assert.NilError(t, err)
			content = bufio.NewReader(plain)
		}
		if magic, err := content.Peek(262); err == nil && string(magic[257:]) == "ustar" {
			unpack(t, out, content)
			continue
		}
		_, err = io.Copy(out, content)
		assert.NilError(t, err)
	}
}

// watched notes which containers are made.
type watched struct {
	*testEngine
	made []string
}

func (w *watched) ContainerCreate(ctx context.Context, options client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	result, err := w.Client.ContainerCreate(ctx, options)
	w.made = append(w.made, result.ID)
	return result, err
}

func TestEngineGivenImageThatLacksThings(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, _ := e.builder(t)
		engine := &watched{testEngine: e}
		b.Engine = engine
		image, err := b.Ensure(t.Context(), Request{Image: e.base})
		assert.NilError(t, err)
		assert.Equal(t, image.Ref, e.base)
		inspects := e.inspects.Load()
		_, err = b.Ensure(t.Context(), Request{Image: e.base})
		assert.NilError(t, err)
		assert.Equal(t, len(engine.made), 1)
		assert.Equal(t, e.inspects.Load(), inspects+1, "a second plan costs one inspect")

		bare := e.derive(t, "VOLUME /data\nUSER nobody-here\nENV PATH=/usr/sbin:/opt/none")
		_, err = b.Ensure(t.Context(), Request{Image: bare})
		assert.ErrorContains(t, err, "cannot be used for a sandbox: no sh in PATH (/usr/sbin:/opt/none), no git in PATH (/usr/sbin:/opt/none)")

		nameless := e.derive(t, "RUN rm /etc/passwd /etc/group && mv /usr/bin/git /opt/git && ln -s ../../../opt/git /usr/local/bin/git")
		_, err = b.Ensure(t.Context(), Request{Image: nameless})
		assert.ErrorContains(t, err, "cannot be used for a sandbox: no file /etc/passwd, no file /etc/group")

		assert.Equal(t, len(engine.made), 3)
		for _, id := range engine.made {
			_, err := e.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			assert.Assert(t, errdefs.IsNotFound(err), "%v", err)
		}
	})
}

// --rebuild uses a new base image.
func TestEngineBaseChanged(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		e.takeOwnBase(t)
		b, out := e.builder(t)
		req := Request{Agent: "shell", Base: e.base}
		changed, err := b.BaseChanged(t.Context(), req)
		assert.NilError(t, err)
		assert.Assert(t, !changed, "there is nothing yet")
		first, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err, "%s", out)
		e.removeAfter(t, first.Ref)
		changed, err = b.BaseChanged(t.Context(), req)
		assert.NilError(t, err)
		assert.Assert(t, !changed)

		other := e.derive(t, "LABEL made=anew")
		_, err = e.ImageTag(t.Context(), client.ImageTagOptions{Source: other, Target: e.base})
		assert.NilError(t, err)
		changed, err = b.BaseChanged(t.Context(), req)
		assert.NilError(t, err)
		assert.Assert(t, changed)
		plan, err := b.Plan(t.Context(), req, e.stored(t, b, first.ID))
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(plan.Why, "has changed"))
		same, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err)
		assert.Equal(t, same.ID, first.ID, "a dispatch goes on with what there is")

		req.Again = true
		second, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err, "%s", out)
		assert.Assert(t, second.Built && second.ID != first.ID)
		changed, err = b.BaseChanged(t.Context(), req)
		assert.NilError(t, err)
		assert.Assert(t, !changed)
		again, err := b.Ensure(t.Context(), req)
		assert.NilError(t, err)
		assert.Equal(t, again.ID, second.ID, "the same base gives the same image")
	})
}
