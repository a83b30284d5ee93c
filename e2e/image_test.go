//go:build unix

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/e2e/registry"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Agent images: pulled, built, listed and pruned.

// unreachableImage is an image whose registry does not exist.
const unreachableImage = "localhost:1/no/such-image:here"

func TestUnpullableBaseIsReportedWithAHint(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		res := w.ralph(t, "--base", unreachableImage, "build").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		assert.Check(t, is.Equal(res.stdout, ""))
		for _, part := range []string{`Error: base image "` + unreachableImage + `" is not on the engine and cannot be pulled`, "--base IMAGE", "[image] base in ralph.toml", "--image IMAGE"} {
			assert.Check(t, is.Contains(res.stderr, part))
		}
		res = w.ralph(t, "--image", unreachableImage, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `Error: image "`+unreachableImage+`" is not on the engine and cannot be pulled`))
	})
}

func TestImageIsBuiltOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		first := w.container(t)
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell:v[0-9a-f]{8}$`, sourceImage(first)))
		w.removeSandboxes(t)

		res := w.ralph(t, "shell", "--", "true").expect(t, 0)

		assert.Equal(t, w.container(t).Image, first.Image)
		assert.Check(t, is.Equal(res.stderr, fmt.Sprintf("Creating sandbox %s with the container driver\n", first.Name[1:])))
	})
}

// Even an image that has neither an agent's user nor ralph.
func TestCustomImageIsUsedUnchanged(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		flags := []string{"--image", engines.BaseImage()}
		w.ok(t, append(flags, "task", "create", "a", "Who", "-s", `["id -u >who; id -un >>who; echo $HOME >>who; touch ~/mine; ralph task list >>who"]`)...)
		w.ok(t, append(flags, "build")...)
		assert.Equal(t, sourceImage(w.container(t)), engines.BaseImage())
		who := w.read(t, "who")
		assert.Check(t, strings.HasPrefix(who, fmt.Sprintf("%d\nagent\n/home/agent\n", w.uid)), who)
		w.assertOwnership(t)
	})
}

// imageStatus is what scripts read of "docker ralph image status".
type imageStatus struct {
	Image   string   `json:"image"`
	ID      string   `json:"id"`
	Kind    string   `json:"kind"`
	Agent   string   `json:"agent"`
	Project string   `json:"project"`
	Base    string   `json:"base"`
	Created *string  `json:"created"`
	Size    int64    `json:"size"`
	UsedBy  []string `json:"used_by"`
	Current bool     `json:"current"`
	Change  string   `json:"change"`
	Status  string   `json:"status"`
}

// images returns the status of the current image, and of all others by name.
func (w *world) images(t *testing.T) (current imageStatus, others map[string]imageStatus) {
	t.Helper()
	var all []imageStatus
	decoder := json.NewDecoder(strings.NewReader(w.ok(t, "image", "status", "--format", "json")))
	decoder.DisallowUnknownFields()
	assert.NilError(t, decoder.Decode(&all))
	others = map[string]imageStatus{}
	for _, image := range all[1:] {
		assert.Assert(t, !image.Current)
		others[image.Image] = image
	}
	assert.Assert(t, all[0].Current)
	return all[0], others
}

// hasImage reports whether the engine has an image.
func (w *world) hasImage(t *testing.T, ref string) bool {
	t.Helper()
	_, err := w.engine.Client(t).ImageInspect(t.Context(), ref)
	assert.Assert(t, err == nil || errdefs.IsNotFound(err), "%v", err)
	return err == nil
}

func TestProjectImageFromBuildToPrune(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.configureGreet(t, w.slug)
		name := filepath.Base(w.repo)
		mine := []string{"image", "prune", "--filter", "project=" + name}
		now, _ := w.images(t)
		assert.Equal(t, now.Change+": "+now.Status, "build: not built yet")
		assert.Equal(t, now.ID, "")

		res := w.ralph(t, "image", "build", "--progress", "plain").expect(t, 0)
		first := strings.TrimSuffix(res.stdout, "\n")
		assert.Equal(t, first, now.Image)
		assert.Check(t, is.Contains(res.stderr, "COPY greet"))
		res = w.ralph(t, "image", "build").expect(t, 0)
		assert.Equal(t, res.stdout, first+"\n")
		assert.Equal(t, res.stderr, "Up to date: nothing was built\n")

		w.createSandbox(t)
		sandbox := w.container(t).Name[1:]
		now, others := w.images(t)
		assert.Equal(t, now.Image+now.Change+now.Status, first+"none"+"up to date")
		assert.Equal(t, now.Kind+" "+now.Agent+" "+now.Project, "project shell "+name)
		assert.Assert(t, now.Created != nil && now.Size > 0 && now.ID != "")
		assert.DeepEqual(t, now.UsedBy, []string{sandbox})
		assert.Equal(t, others[now.Base].Kind, "agent")

		w.configureGreet(t, w.slug+" again")
		now, others = w.images(t)
		assert.Equal(t, now.Change, "build")
		assert.Equal(t, now.Status, ".agent-loop/Dockerfile.sandbox or another file there changed; sandbox "+sandbox+" uses "+first)
		assert.Equal(t, others[first].Status, "in use")
		table := w.ok(t, "image", "status")
		assert.Check(t, is.Regexp(`^IMAGE +KIND +AGENT +PROJECT +BASE +CREATED +SIZE +USED BY +STATUS\n`, table))
		assert.Check(t, is.Regexp(`\n`+now.Image+` \* +project +shell +`+name+` `, table))
		assert.Check(t, is.Regexp(`\n`+first+` +project +shell +`+name+` +\S+ .* `+sandbox+` +in use\n`, table))
		second := strings.TrimSuffix(w.ok(t, "image", "build"), "\n")
		assert.Assert(t, second != first)

		// One is in use, the other is needed.
		if w.hasClone() { // the user of a clone has a name in each image
			w.removeSandboxes(t)
			assert.Equal(t, w.ok(t, append(mine, "--force")...), first+"\n")
			assert.Assert(t, !w.hasImage(t, first) && w.hasImage(t, second))
			return
		}
		res = w.ralph(t, append(mine, "--force")...).expect(t, 0)
		assert.Equal(t, res.stdout+res.stderr, "Nothing to remove\n")
		w.removeSandboxes(t)
		unused := strings.Fields(w.ok(t, append(mine, "--dry-run")...))
		// The other is the same image, in which the user has got a name.
		assert.Equal(t, len(unused), 2)
		assert.Equal(t, unused[0], first)
		assert.Check(t, is.Regexp("^docker-ralph/user-mapped:", unused[1]))
		res = w.ralph(t, mine...).expect(t, 1)
		assert.Equal(t, res.stdout, "")
		assert.Equal(t, res.stderr, "Error: refusing to remove 2 images without confirmation\nHint: preview with --dry-run, or pass --force\n")
		assert.Assert(t, w.hasImage(t, first))
		both := strings.Fields(w.ok(t, append(mine, "--dry-run", "--all")...))
		assert.DeepEqual(t, both, slices.Sorted(slices.Values([]string{first, second, unused[1]})))
		yes := w.terminal(t, w.docker(append([]string{"ralph"}, mine...)...))
		yes.screen.WaitFor(t, "Remove 2 images? [y/N]")
		yes.press(t, "y\r")
		screen := yes.wait(t).expect(t, 0).stdout
		assert.Check(t, is.Regexp(`Removed 2 images(, which freed [0-9.]+[kMG]?B)?\r\n`+unused[1]+`\r\n`+first+`\r\n`, screen)) // other tests use space meanwhile
		assert.Assert(t, !w.hasImage(t, first) && w.hasImage(t, second))
	})
}

func TestImageBuildOutsideOfARepository(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		cmd := w.docker("ralph", "image", "build")
		cmd.Dir = w.home
		res := run(t, cmd).expect(t, 0)
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell:v[0-9a-f]{8}\n$`, res.stdout))
		assert.Check(t, is.Contains(res.stderr, "Not inside a git repository: building the image of agent shell alone\n"))
		assert.Assert(t, w.hasImage(t, strings.TrimSpace(res.stdout)))
		cmd = w.docker("ralph", "image", "status", "--format", "{{.Image}}")
		cmd.Dir = w.home
		assert.Check(t, is.Contains("\n"+run(t, cmd).expect(t, 0).stdout, "\n"+res.stdout))
	})
}

// A detached HEAD has no sandbox, but an image.
func TestImageBuildWithADetachedHead(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.git(t, "checkout", "-q", "--detach")
		ref := w.ok(t, "image", "build")
		assert.Equal(t, w.ok(t, "image", "build", "--platform", "linux/"+runtime.GOARCH), ref, "the engine's own platform")
		now, _ := w.images(t)
		assert.Equal(t, now.Image+"\n", ref)
		assert.Equal(t, now.Status, "up to date")
	})
}

// A build secret is visible to the steps that mount it, and not in the image.
func TestBuildSecretIsOnlyInItsStep(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox"), "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n"+
			"RUN --mount=type=secret,id=token,required=true test \"$(wc -c </run/secrets/token)\" = 11 # "+w.slug+"\nUSER agent\n")
		t.Cleanup(func() { w.removeProjectImages(t) })
		w.ok(t, "trust", "--force")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "docker ralph image build --secret id=token,src=FILE"))

		w.setenv("TOKEN", "swordfish-7")
		res = w.ralph(t, "image", "build", "--progress", "plain", "--secret", "id=token,env=TOKEN").expect(t, 0)
		assert.Check(t, !strings.Contains(res.stderr, "swordfish"))
		image := strings.TrimSpace(res.stdout)
		history, err := w.engine.Client(t).ImageHistory(t.Context(), image)
		assert.NilError(t, err)
		assert.Check(t, !strings.Contains(fmt.Sprint(history.Items), "swordfish"))
		w.createSandbox(t)
		assert.Equal(t, sourceImage(w.container(t)), image)
	})
}

// registryVariable makes these tests a registry, for images of the architecture
// that it names.
const registryVariable = "RALPH_TEST_REGISTRY"

// registry runs these tests as a registry in the engine's own network.
func (w *world) registry(t *testing.T) (address string) {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	host := []string{"-H", w.engine.Host}
	docker := func(args ...string) string {
		return strings.TrimSpace(run(t, exec.Command("docker", append(host, args...)...)).expect(t, 0).stdout)
	}
	arch := docker("version", "--format", "{{.Server.Arch}}")
	id := docker("create", "--network", "host", "-e", registryVariable+"="+arch, engines.BaseImage(), "/registry")
	t.Cleanup(func() { docker("rm", "-f", id) })
	docker("cp", self, id+":/registry")
	docker("start", id)
	eventually(t, func() error {
		if address = docker("logs", id); address == "" {
			return errors.New("the registry says nothing")
		}
		return nil
	})
	return address
}

func TestImagesArePulledWithDockersCredentials(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		address := w.registry(t)
		ref := address + "/team/tool:1"
		t.Cleanup(func() {
			_, _ = w.engine.Client(t).ImageRemove(context.WithoutCancel(t.Context()), ref, client.ImageRemoveOptions{Force: true})
		})
		res := w.ralph(t, "image", "pull", ref).expect(t, 1)
		assert.Equal(t, res.stdout, "")
		assert.Check(t, is.Contains(res.stderr, `Error: pulling image "`+ref+`": `))

		token := base64.StdEncoding.EncodeToString([]byte(registry.User + ":" + registry.Password))
		w.write(t, filepath.Join(w.config, "config.json"), fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, address, token))
		res = w.ralph(t, "image", "pull", "--progress", "plain", ref).expect(t, 0)
		assert.Equal(t, res.stdout, ref+"\n")
		assert.Check(t, is.Contains(res.stderr, "Downloaded newer image"))
		assert.Assert(t, w.hasImage(t, ref))

		// Without a name, it is the one that is used as it is, or else the base.
		assert.Equal(t, w.ok(t, "--image", ref, "image", "pull"), ref+"\n")
		assert.Equal(t, w.ok(t, "--base", ref, "image", "pull"), ref+"\n")

		// A file is all that it has.
		res = w.ralph(t, "--image", ref, "build").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)
		for _, part := range []string{
			`Error: image "` + ref + `" cannot be used for a sandbox: `, "no sh in PATH", "no git in PATH",
			"no file /etc/passwd", "no file /etc/group", "\nHint: add what is missing", `"FROM ` + ref + `"`,
		} {
			assert.Check(t, is.Contains(res.stderr, part))
		}
	})
}

func TestImageOfAMicroVMIsInUse(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		now, _ := w.images(t)
		assert.Equal(t, now.Change, "none")
		if w.driver == config.DriverDockerSandbox {
			assert.Equal(t, now.Kind+" "+now.Image, "template docker/sandbox-templates:shell")
			assert.Equal(t, now.Status, "Docker's template, pulled by docker-sandbox")
			return
		}
		assert.Equal(t, now.Kind+" "+now.Status, "agent up to date")
		assert.Assert(t, slices.Contains(now.UsedBy, w.sandbox(t).Name), now.UsedBy)
		unused := w.ok(t, "image", "prune", "--all", "--dry-run")
		assert.Check(t, !strings.Contains("\n"+unused, "\n"+now.Image+"\n"), unused)
	})
}
