//go:build unix

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// The release in dist/, as users install it: these tests use nothing else of the checkout.

const distArchive = "docker-ralph-linux-" + runtime.GOARCH

// releaseCopy is a copy of the release under test that ordinary users can read.
var releaseCopy = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(shared.dir, "dist")
	return dir, os.CopyFS(dir, os.DirFS(os.Getenv("RALPH_TEST_DIST")))
})

// distDir returns the release under test, which "make dist" has written.
func distDir(t *testing.T) string {
	t.Helper()
	if os.Getenv("RALPH_TEST_DIST") == "" {
		t.Skip(`"make test-dist" runs this`)
	}
	dir, err := releaseCopy()
	assert.NilError(t, err)
	return dir
}

// distVersion returns the version of the release.
func distVersion(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(distDir(t), "docker-ralph.spdx.json"))
	assert.NilError(t, err)
	var sbom struct {
		Packages []struct{ VersionInfo string }
	}
	assert.NilError(t, json.Unmarshal(content, &sbom))
	return sbom.Packages[0].VersionInfo
}

// onDist runs a test for a user without a plugin.
func onDist(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	distDir(t)
	onEngines(t, func(t *testing.T, w *world) {
		w.useDefaults()
		assert.NilError(t, os.RemoveAll(filepath.Join(w.config, "cli-plugins")))
		test(t, w)
	})
}

// A package installs, works through a task and is removed in a container that has git and the Docker CLI only.
func TestDistPackageOnABareMachine(t *testing.T) {
	onDist(t, func(t *testing.T, w *world) {
		packages, err := filepath.Glob(filepath.Join(distDir(t), "*_"+runtime.GOARCH+".deb"))
		assert.NilError(t, err)
		assert.Equal(t, len(packages), 1)
		machine := strings.TrimSpace(run(t, w.docker("run", "--detach", "--init", "--volume", strings.TrimPrefix(w.engine.Host, "unix://")+":/var/run/docker.sock",
			engines.BaseImage(), "sleep", "infinity")).expect(t, 0).stdout)
		t.Cleanup(func() { run(t, w.docker("rm", "--force", machine)).expect(t, 0) })
		run(t, w.docker("cp", packages[0], machine+":/tmp/docker-ralph.deb")).expect(t, 0)
		run(t, w.docker("cp", filepath.Join(shared.bin, "docker"), machine+":/usr/bin/docker")).expect(t, 0)

		in := func(script string) result {
			return run(t, w.docker("exec", "--workdir", "/root", machine, "sh", "-euc", script))
		}
		// The image's own rules leave out documentation.
		in("rm /etc/dpkg/dpkg.cfg.d/* && dpkg --install /tmp/docker-ralph.deb").expect(t, 0)
		assert.Check(t, is.Contains(in("docker ralph version").expect(t, 0).stdout, distVersion(t)))
		assert.Check(t, is.Contains(in("docker-ralph __complete bu").expect(t, 0).stdout, "build\t"))
		in("test -e /usr/share/man/man1/docker-ralph-build.1; test -e /usr/share/bash-completion/completions/docker-ralph").expect(t, 0)

		res := in(`git config --global user.name "Una User"; git config --global user.email una@example.com
			git init -qb main shop; cd shop; git remote add origin https://git.example/`+w.slug+`.git; git commit -q --allow-empty -m first
			export RALPH_AGENT=shell RALPH_DRIVER=container RALPH_BASE=`+engines.BaseImage()+`
			docker ralph task create greet "Add a greeting" -s '["echo Hello > greeting.txt"]'
			docker ralph build
			git show HEAD:greeting.txt
			docker ralph clean --force`).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "\nHello\n"))

		in("dpkg --remove docker-ralph").expect(t, 0)
		in("docker ralph version").expect(t, 1)
		left := in("find / -xdev -name '*docker-ralph*' -not -path '/tmp/*' -not -path '/proc/*' -not -path '/var/lib/dpkg/*'").expect(t, 0)
		assert.Equal(t, left.stdout, "")
		in("test -d .docker/ralph/scopes").expect(t, 0)
	})
}

// The installer of an unpacked archive installs into another home, and removal keeps the state.
func TestDistArchiveUnderAnotherHome(t *testing.T) {
	onDist(t, func(t *testing.T, w *world) {
		w.home = filepath.Join(w.dir, "other home")
		w.config = filepath.Join(w.home, ".docker")
		w.env = slices.DeleteFunc(w.env, func(v string) bool { return strings.HasPrefix(v, "DOCKER_CONFIG=") })
		w.setenv("HOME", w.home)
		w.configureUser(t, "")
		run(t, w.command("tar", "-xzf", filepath.Join(distDir(t), distArchive+".tar.gz"), "-C", w.home)).expect(t, 0)
		install := filepath.Join(w.home, distArchive, "install.sh")
		said := run(t, w.command(install)).expect(t, 0).stderr
		assert.Check(t, is.Contains(said, "installed "+w.config+"/cli-plugins/docker-ralph ("+distVersion(t)+")\n"))
		assert.Check(t, is.Contains(said, "docker-ralph version "+distVersion(t)+"\n"))

		w.plan(t, task{ID: "1", Title: "Greet", Steps: []string{"echo Hello >greeting"}})
		w.ok(t, "build")
		assert.Equal(t, w.read(t, "greeting"), "Hello\n")

		run(t, w.command(install, "--uninstall")).expect(t, 0)
		w.ralph(t, "version").expect(t, 1)
		run(t, w.command(install, "--from", distDir(t))).expect(t, 0)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"1": "done"})
		w.ok(t, "clean", "--force")
	})
}

// A loop that an older version has started goes on during the upgrade, and is followed with the new version.
func TestDistUpgradeUnderARunningLoop(t *testing.T) {
	onDist(t, func(t *testing.T, w *world) {
		old := filepath.Join(w.dir, "docker-ralph-old")
		assert.NilError(t, buildPlugin(shared.root, old, "v0.0.1-e2e"))
		assert.NilError(t, os.MkdirAll(filepath.Join(w.config, "cli-plugins"), 0o755))
		assert.NilError(t, copyProgram(old, filepath.Join(w.config, "cli-plugins", "docker-ralph")))
		w.chown(t, w.config)
		w.plan(t, slowTask(), task{ID: "version", Title: "Version", Priority: 9, Steps: []string{"ralph version >version"}})
		w.ok(t, "--detach", "build", "-n", "1")
		waitForFile(t, w.pathInside(t, "begun"))

		run(t, w.command(filepath.Join(distDir(t), "install.sh"))).expect(t, 0)
		assert.Check(t, is.Contains(w.ok(t, "version"), distVersion(t)))
		assert.Check(t, is.Contains(w.ok(t, "status"), "build #1"))
		attach := start(t, w.docker("ralph", "attach"))
		attach.stdout.WaitFor(t, "Mode:")
		w.write(t, w.pathInside(t, "go"), "")
		attach.wait(t).expect(t, 0)
		assert.Equal(t, w.loopEnd(t).ExitCode, 0)

		w.ok(t, "build", "-n", "1")
		assert.Equal(t, w.read(t, "version"), "ralph "+distVersion(t)+"\n")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done", "version": "done"})
	})
}

// The image is the plugin alone, for COPY --from, also without BuildKit.
func TestDistImage(t *testing.T) {
	onDist(t, func(t *testing.T, w *world) {
		w.setenv("DOCKER_BUILDKIT", "0")
		image := "docker-ralph-e2e:" + strings.TrimPrefix(w.slug, "e2e/")
		release, user := filepath.Join(w.dir, "release"), filepath.Join(w.dir, "user")
		t.Cleanup(func() { run(t, w.docker("rmi", "--force", image, image+"-user")).expect(t, 0) })
		for _, name := range []string{"Dockerfile", distArchive + ".tar.gz"} {
			content, err := os.ReadFile(filepath.Join(distDir(t), name))
			assert.NilError(t, err)
			w.write(t, filepath.Join(release, name), string(content))
		}
		run(t, w.docker("build", "--tag", image, "--build-arg", "TARGETARCH="+runtime.GOARCH, release)).expect(t, 0)
		assert.Check(t, is.Contains(run(t, w.docker("run", "--rm", image, "version")).expect(t, 0).stdout, distVersion(t)))

		const plugin = "/usr/libexec/docker/cli-plugins/docker-ralph"
		w.write(t, filepath.Join(user, "Dockerfile"), "FROM "+engines.BaseImage()+"\nCOPY --from="+image+" /docker-ralph "+plugin+"\n")
		run(t, w.docker("build", "--tag", image+"-user", user)).expect(t, 0)
		assert.Check(t, is.Contains(run(t, w.docker("run", "--rm", image+"-user", plugin, "version")).expect(t, 0).stdout, distVersion(t)))
	})
}

// The same commit gives the same bytes in another checkout.
func TestDistIsReproducible(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(distDir(t), "provenance.json"))
	assert.NilError(t, err)
	var statement struct {
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	assert.NilError(t, json.Unmarshal(content, &statement))
	checkout := filepath.Join(t.TempDir(), "elsewhere")
	for _, args := range [][]string{
		{"git", "clone", "-q", shared.root, checkout},
		{"git", "-C", checkout, "checkout", "-q", statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]},
		{"make", "-C", checkout, "dist", "VERSION=" + distVersion(t), "PLATFORMS=linux-" + runtime.GOARCH},
	} {
		run(t, exec.Command(args[0], args[1:]...)).expect(t, 0)
	}
	found, err := filepath.Glob(filepath.Join(checkout, "dist", "docker-ralph[^.]*"))
	assert.NilError(t, err)
	assert.Equal(t, len(found), 3, found) // archive, deb, rpm
	for _, file := range found {
		assert.Check(t, is.Equal(sumOf(t, filepath.Join(distDir(t), filepath.Base(file))), sumOf(t, file)), file)
	}
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	assert.NilError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(content))
}
