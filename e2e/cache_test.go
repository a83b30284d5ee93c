//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// The caches of package managers are on a volume of the repository: its work
// trees share it, it outlives their sandboxes, and no other repository has it.
func TestTheRepositorysCaches(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.byDefault()
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

		other := w.linked(t, "other")
		assert.Equal(t, other.ok(t, "shell", "--", "sh", "-c", `cat "$npm_config_cache/kept"`), "mine\n")
		w.ok(t, "--recreate", "shell", "--", "sh", "-c", `cat "$GOCACHE/kept"`)

		// What an agent has removed comes back, and a volume that is made anew is the
		// user's again.
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

// sandboxVolumes are the volumes of the world's repository but its caches, which
// belong to no sandbox.
func (w *world) sandboxVolumes(t *testing.T) []string {
	t.Helper()
	cache := container.CacheVolume(w.repo)
	return slices.DeleteFunc(w.volumes(t), func(name string) bool { return name == cache })
}

// What a user sets counts more, and a cache that newer yarns keep in the work
// tree stays there.
func TestCachesElsewhere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("GOCACHE", "/tmp/mine")
		w.write(t, filepath.Join(w.repo, ".yarnrc.yml"), "enableGlobalCache: false\n")
		said := w.ok(t, "--env", "GOCACHE", "shell", "--", "sh", "-c", `echo "$GOCACHE" "$YARN_CACHE_FOLDER" "${YARN_GLOBAL_FOLDER##*/}"`)
		assert.Equal(t, said, "/tmp/mine  berry\n")
	})
}

// Worktrees of one bare repository share its caches, and those of another have
// others: it has no main worktree by whose path it would be known.
func TestCachesOfBareRepositories(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
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

// A volume of that name that is somebody else's is not used.
func TestAForeignCache(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		volume := container.CacheVolume(w.repo)
		run(t, w.docker("volume", "create", "--label", labelPrefix+"scope.repo="+w.slug, volume)).expect(t, 0)
		res := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: the name "+volume+" is taken by a volume that docker-ralph did not make"))
		run(t, w.docker("volume", "rm", volume)).expect(t, 0)
		w.ok(t, "task", "list")
	})
}

// What the host has built and what the sandbox has built do not meet.
func TestShadowedModules(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.configure(t, "[sandbox]\nshadow_node_modules = \"on\"\n")
		for _, dir := range []string{"", "packages/one", "node_modules/dependency"} {
			w.write(t, filepath.Join(w.repo, dir, "package.json"), "{}\n")
		}
		w.write(t, filepath.Join(w.repo, "node_modules", "built"), "on the host\n")
		w.own(t, w.repo)
		said := w.ok(t, "shell", "--", "sh", "-c", `ls -A node_modules; echo inside >node_modules/built; echo inside >packages/one/node_modules/built; cat node_modules/built`)
		assert.Equal(t, said, "inside\n")
		assert.Equal(t, w.read(t, "node_modules/built"), "on the host\n")
		left, err := os.ReadDir(filepath.Join(w.repo, "packages", "one", "node_modules"))
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)
		assert.Equal(t, w.ok(t, "shell", "--", "cat", "packages/one/node_modules/built"), "inside\n")
		w.ownsEverything(t)

		// By default, what is of the same platform is shared.
		w.configure(t, "")
		assert.Equal(t, w.ok(t, "--recreate", "shell", "--", "cat", "node_modules/built"), "on the host\n")
		for _, v := range w.volumes(t) {
			assert.Check(t, strings.HasPrefix(v, "ralph-cache-") || len(v) == 64, v)
		}
	})
}
