//go:build unix

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// Project images, and the caches of package managers.

// configureGreet has the repository require a program called greet in its sandboxes,
// and approves that.
func (w *world) configureGreet(t *testing.T, greeting string) {
	t.Helper()
	folder := filepath.Join(w.repo, ".agent-loop")
	w.write(t, filepath.Join(folder, "Dockerfile.sandbox"),
		"ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nCOPY greet /usr/local/bin/\nRUN chmod 755 /usr/local/bin/greet\nUSER agent\n")
	w.write(t, filepath.Join(folder, "greet"), "#!/bin/sh\necho "+greeting+"\n")
	w.chown(t, folder)
	w.ok(t, "trust", "--force")
	t.Cleanup(func() { w.removeProjectImages(t) })
}

func (w *world) projectImages(t *testing.T) []image.Summary {
	t.Helper()
	images, err := w.engine.Client(t).ImageList(context.WithoutCancel(t.Context()), client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelPrefix+"project="+filepath.Base(w.repo)),
	})
	assert.NilError(t, err)
	return images.Items
}

// removeProjectImages removes the images with the repository's name.
func (w *world) removeProjectImages(t *testing.T) {
	t.Helper()
	ctx, api := context.WithoutCancel(t.Context()), w.engine.Client(t)
	w.removeSandboxes(t)
	for range 2 { // those that are built on others first
		for _, image := range w.projectImages(t) {
			_, _ = api.ImageRemove(ctx, image.ID, client.ImageRemoveOptions{Force: true})
		}
	}
}

func TestProjectImage(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.configureGreet(t, "hello")
		w.plan(t, task{ID: "a", Title: "Greet", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "hello\n")
		first := w.container(t)
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell-`+filepath.Base(w.repo)+`:v[0-9a-f]{8}$`, sourceImage(first)))

		// A linked worktree uses the main worktree's requirements, not its own branch's.
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
		w.configureGreet(t, "good evening")
		w.plan(t, task{ID: "c", Title: "Greet again", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "good evening\n")
		assert.Check(t, sourceImage(w.container(t)) != sourceImage(first))
	})
}

// A Dockerfile that an agent writes into .agent-loop is neither built, on any branch,
// nor used from the cache before the user has approved exactly that.
func TestDockerfileOfAnAgentNeedsApproval(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		t.Cleanup(func() { w.removeProjectImages(t) })
		w.plan(t, task{ID: "a", Title: "Change the image", Steps: []string{
			"mkdir -p .agent-loop",
			`printf 'ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY greet /greet\n' >.agent-loop/Dockerfile.sandbox`,
			"echo '" + w.slug + "' >.agent-loop/greet",
		}})
		w.ok(t, "build")
		before := w.sandbox(t).ID
		w.git(t, "checkout", "-q", "-b", "other")
		unapproved := "Error: " + filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox") + " is not approved (new Dockerfile.sandbox, new greet)\n" +
			"Hint: review it, then run \"docker ralph trust\"\n"
		for _, args := range [][]string{{"build"}, {"--recreate", "build"}, {"shell", "--", "true"}, {"image", "build"}, {"--worktree=w1", "build"}} {
			res := w.ralph(t, args...).expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, unapproved), "%v", args)
			assert.Check(t, !strings.Contains(res.stderr, "#1 "), "%v built something: %s", args, res.stderr)
		}
		w.dialogue(t, "build", "cloud metadata addresses.\r\nBuild it? [y/N]", "n").expect(t, 1)
		assert.Equal(t, len(w.projectImages(t)), 0)
		assert.Equal(t, len(w.sandboxes(t)), 1)

		// The sandbox that exists is not lost to an image that may not be built.
		w.git(t, "checkout", "-q", "main")
		w.ralph(t, "--recreate", "shell", "--", "true").expect(t, 1)
		assert.Equal(t, w.sandbox(t).ID, before)

		w.git(t, "checkout", "-q", "other")
		w.dialogue(t, "shell -- true", "Build it? [y/N]", "y").expect(t, 0)
		assert.Check(t, len(w.projectImages(t)) > 0)
		w.ok(t, "build") // approved, and from the cache

		w.write(t, filepath.Join(w.repo, ".agent-loop", "greet"), "changed\n")
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "is not approved (changed greet)\n"))
		w.write(t, filepath.Join(w.repo, ".agent-loop", "greet"), w.slug+"\n")
		w.ok(t, "build")

		// An image that is there is not used without approval either.
		w.ok(t, "trust", "--revoke")
		w.git(t, "checkout", "-q", "-b", "third")
		res = w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, unapproved))
	})
}

func TestBuildStepsWithoutANetwork(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(w.engine.Gateway, "0"))
		assert.NilError(t, err)
		t.Cleanup(func() { assert.Check(t, listener.Close()) })
		host, port, err := net.SplitHostPort(listener.Addr().String())
		assert.NilError(t, err)
		t.Cleanup(func() { w.removeProjectImages(t) })
		dockerfile := filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox")
		write := func(step string) {
			w.write(t, dockerfile, "# syntax=registry.invalid/frontend:1\nARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"+step+"\nLABEL e2e="+w.slug+"\n")
			w.ok(t, "trust", "--force")
		}
		reachesOut := "bash -c ': >/dev/tcp/" + host + "/" + port + "'"
		w.configure(t, "[image]\nnetwork = \"none\"\n")
		write("RUN " + reachesOut)
		res := w.ralph(t, "image", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Network is unreachable"))
		if w.engine.Kind() != "debian" { // whose Dockerfiles have no such flag
			write("RUN --network=default " + reachesOut)
			res = w.ralph(t, "image", "build").expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, "Network is unreachable"))
		}
		write("ADD http://" + host + ":" + port + "/x /x")
		res = w.ralph(t, "image", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, dockerfile+":4: ADD http://"+host))
		write("RUN ! " + reachesOut)
		w.ok(t, "image", "build")

		// The steps do reach it with the default network.
		w.write(t, dockerfile, "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN "+reachesOut+"\nLABEL e2e="+w.slug+"\n")
		w.configure(t, "")
		w.ok(t, "trust", "--force")
		w.ok(t, "image", "build")
	})
}

func TestChangedProjectImageNeedsRecreate(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.createSandbox(t)
		before := w.sandbox(t).ID
		w.configureGreet(t, "hello")
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no longer matches the configuration (image from agent-loop-sandbox-shell:"))
		assert.Check(t, is.Contains(res.stderr, "--recreate"))
		assert.Equal(t, w.sandbox(t).ID, before)
		w.createSandbox(t, "--recreate")
		assert.Check(t, w.sandbox(t).ID != before)
	})
}

func TestProjectImageErrors(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		file := filepath.Join(w.repo, ".agent-loop", "dependencies")
		w.write(t, file, "jq\n\nfiglet; touch /tmp/mine # no\n")
		res := w.ralph(t, "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: "+file+":3:"))
		assert.Check(t, is.Contains(res.stderr, "figlet; touch /tmp/mine"))
		assert.Equal(t, len(w.sandboxes(t)), 0)

		// An image that is used as it is has no such layer.
		w.setenv("DOCKER_SANDBOX_IMAGE", os.Getenv("RALPH_TEST_BASE"))
		w.createSandbox(t)
		assert.Equal(t, sourceImage(w.container(t)), os.Getenv("RALPH_TEST_BASE"))
	})
}

func TestProjectImageInAMicroVM(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.configureGreet(t, "hello")
		if w.driver == config.DriverDockerSandbox {
			res := w.ralph(t, "shell", "--", "true").expect(t, 0)
			assert.Check(t, is.Contains(res.stderr, "Warning: "+filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox")+" has no effect: image "))
			return
		}
		w.plan(t, task{ID: "a", Title: "Greet", Steps: []string{"greet >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "hello\n")
	})
}

// The caches of package managers are on a volume of the repository: its worktrees
// share it, it outlives their sandboxes, and no other repository has it.
func TestPackageCachesAreSharedByWorktrees(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		said := w.ok(t, "shell", "--", "sh", "-c",
			`for dir in "$npm_config_cache" "$pnpm_config_store_dir" "$YARN_CACHE_FOLDER" "$PIP_CACHE_DIR" "$UV_CACHE_DIR" "$CARGO_HOME" "$GOMODCACHE" "$GOCACHE"; do
				test "$(stat -c %u "$dir")" = "$(id -u)" && echo mine >"$dir/kept" && echo "${dir#/ralph-cache/*/}"
			done; cat ~/.config/pnpm/rc; apt-config shell lists Dir::State::lists/d archives Dir::Cache::archives/d; touch "$(dirname "$APT_CONFIG")/lists/x"`)
		dir := fmt.Sprintf("%s/%d", container.CacheDir, w.uid)
		assert.Equal(t, said, "npm\npnpm/store\nyarn\npip\nuv\ncargo\ngo/mod\ngo/build\n"+
			"store-dir="+dir+"/pnpm/store\nlists='"+dir+"/apt/lists/'\narchives='"+dir+"/apt/cache/archives/'\n")

		volume := container.CacheVolume(w.repo)
		res, err := w.engine.Client(t).VolumeInspect(t.Context(), volume, client.VolumeInspectOptions{})
		assert.NilError(t, err)
		for label, want := range map[string]string{"created-by": "docker-ralph", "root": w.repo, "scope.repo": w.slug, "role": "cache"} {
			assert.Check(t, is.Equal(res.Volume.Labels[labelPrefix+label], want))
		}

		other := w.linkedWorktree(t, "other")
		assert.Equal(t, other.ok(t, "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`), "mine\n")
		w.ok(t, "--recreate", "shell", "--", "sh", "-c", `cat "$GOCACHE/kept"`)

		// Removed directories are recreated, and a new volume belongs to the user again.
		const there = `test -d "$PIP_CACHE_DIR" && test -w "$GOCACHE" && cat "$APT_CONFIG"`
		conf := w.ok(t, "shell", "--", "sh", "-c", there+`; rm -rf /ralph-cache/*/*`)
		assert.Equal(t, w.ok(t, "--recreate", "shell", "--", "sh", "-c", there), conf)
		other.ok(t, "clean", "--force")
		w.ok(t, "clean", "--force")
		_, err = w.engine.Client(t).VolumeRemove(t.Context(), volume, client.VolumeRemoveOptions{})
		assert.NilError(t, err)
		assert.Equal(t, w.ok(t, "shell", "--", "sh", "-c", there), conf)

		stranger := newWorld(t, w.engine)
		stranger.ralph(t, "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`).expect(t, 1)
	})
}

// sandboxVolumes are the volumes of the world's repository without its caches.
func (w *world) sandboxVolumes(t *testing.T) []string {
	t.Helper()
	cache := container.CacheVolume(w.repo)
	return slices.DeleteFunc(w.volumes(t), func(name string) bool { return name == cache })
}

// The user's settings override ours, and a cache that newer yarns keep in the worktree
// stays there.
func TestUserSettingsOverridePackageCaches(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.setenv("GOCACHE", "/tmp/mine")
		w.write(t, filepath.Join(w.repo, ".yarnrc.yml"), "enableGlobalCache: false\n")
		said := w.ok(t, "--env", "GOCACHE", "shell", "--", "sh", "-c", `echo "$GOCACHE" "$YARN_CACHE_FOLDER" "${YARN_GLOBAL_FOLDER##*/}"`)
		assert.Equal(t, said, "/tmp/mine  berry\n")
	})
}

// Worktrees of one bare repository share its caches, and those of another have
// others: it has no main worktree by whose path it would be known.
func TestPackageCachesOfBareRepositories(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		origin := w.git(t, "remote", "get-url", "origin")
		worktree := func(repository, branch string) *world {
			bare := filepath.Join(w.dir, repository+".git")
			if _, err := os.Stat(bare); err != nil {
				w.git(t, "clone", "-q", "--bare", w.repo, bare)
				w.git(t, "-C", bare, "remote", "set-url", "origin", origin)
			}
			other := *w
			other.env = slices.Clone(w.env)
			other.repo = filepath.Join(w.dir, branch)
			w.git(t, "-C", bare, "worktree", "add", "-q", "-b", branch, other.repo)
			return &other
		}
		one, two, stranger := worktree("a", "one"), worktree("a", "two"), worktree("b", "three")
		one.ok(t, "shell", "--", "sh", "-c", `echo mine >"$npm_config_cache/kept"`)
		assert.Equal(t, two.ok(t, "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`), "mine\n")
		stranger.ralph(t, "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`).expect(t, 1)
		var mounted []string
		for _, c := range w.containers(t) {
			mounted = append(mounted, c.Labels[labelPrefix+"cache"])
		}
		slices.Sort(mounted)
		a, b := container.CacheVolume(filepath.Join(w.dir, "a.git")), container.CacheVolume(filepath.Join(w.dir, "b.git"))
		want := []string{a, a, b}
		slices.Sort(want)
		assert.DeepEqual(t, mounted, want)
	})
}

// Another repository was at the path before. It may have left programs.
func TestCacheOfAnotherRepositoryIsNotUsed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		volume := container.CacheVolume(w.repo)
		run(t, w.docker("volume", "create", "--label", labelPrefix+"created-by=docker-ralph", "--label", labelPrefix+"role=cache",
			"--label", labelPrefix+"root="+w.repo, "--label", labelPrefix+"scope.repo=evil/shop", volume)).expect(t, 0)
		t.Cleanup(func() { run(t, w.docker("volume", "rm", "-f", volume)) })
		w.ok(t, "shell", "--", "sh", "-c", `echo mine >"$npm_config_cache/kept"`)
		own := container.OwnCacheVolume(w.repo, w.slug)
		assert.Equal(t, w.containers(t)[0].Labels[labelPrefix+"cache"], own)
		assert.Equal(t, w.ok(t, "--recreate", "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`), "mine\n")
		assert.Check(t, is.Contains(w.ok(t, "clean", "--all", "--force"), "volume "+own+"\n"))
	})
}

// A volume of that name that docker-ralph did not create is not used.
func TestForeignCacheVolumeIsRejected(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		volume := container.CacheVolume(w.repo)
		run(t, w.docker("volume", "create", "--label", labelPrefix+"scope.repo="+w.slug, volume)).expect(t, 0)
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: the name "+volume+" is in use by a volume that docker-ralph did not create"))
		run(t, w.docker("volume", "rm", volume)).expect(t, 0)
		w.createSandbox(t)
	})
}
