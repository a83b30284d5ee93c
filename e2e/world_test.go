//go:build unix

package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// A world is a user with a home, a Docker configuration and a repository.

// The ordinary user whom commands run as when the tests run as root.
const (
	userUID = 1234
	userGID = 2345
)

const labelPrefix = "io.github.docker-ralph."

// world is a user with a home, a Docker configuration with the plugin, and a
// repository that no other test knows.
type world struct {
	engine   engines.Engine
	driver   string    // of the sandboxes
	fakeDir  string    // state directory of the microVM program's fake; empty for containers
	endpoint *endpoint // of a remote engine; nil if commands use the engine's socket
	uid, gid int

	dir    string // holds the rest
	home   string
	config string // DOCKER_CONFIG
	repo   string // the worktree
	slug   string // owner/repo of its origin
	env    []string
}

// onEngines runs a test in containers, with a new world for each of its engines.
func onEngines(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, e := range enginesFor(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, e))
		})
	}
}

// newWorld makes the world of an ordinary user. The user's own configuration
// chooses the shell agent on the base image that every test engine has.
func newWorld(t *testing.T, e engines.Engine) *world {
	t.Helper()
	return newDriverWorld(t, e, config.DriverContainer)
}

// skipOrFail skips a test that lacks something on a developer's machine. In CI
// nothing may be lacking.
func skipOrFail(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// newRootWorld makes the world of root.
func newRootWorld(t *testing.T, e engines.Engine) *world {
	t.Helper()
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can try what root does")
	}
	w := &world{engine: e, driver: config.DriverContainer}
	w.setUp(t)
	return w
}

func (w *world) setUp(t *testing.T) {
	t.Helper()
	if listed(t, onlyMatrix) {
		onlyInMatrix(t)
	}

	dir, err := os.MkdirTemp(shared.dir, "world-")
	assert.NilError(t, err)
	assert.NilError(t, os.Chmod(dir, 0o755))
	id := strings.ToLower(rand.Text()[:10])
	w.dir, w.home, w.config = dir, filepath.Join(dir, "home"), filepath.Join(dir, "docker")
	w.repo, w.slug = filepath.Join(dir, "src", id), "e2e/"+id
	plugins := filepath.Join(w.config, "cli-plugins")
	for _, folder := range []string{w.home, plugins, filepath.Join(w.config, "ralph"), filepath.Join(w.repo, ".ralph")} {
		assert.NilError(t, os.MkdirAll(folder, 0o755))
	}
	w.install(t, shared.plugin)
	w.env = []string{
		"PATH=" + shared.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + w.home,
		"DOCKER_CONFIG=" + w.config,
		"DOCKER_HOST=" + w.engine.Host,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + filepath.Join(w.home, ".gitconfig"),
	}
	if w.driver != config.DriverContainer {
		w.setUpFake(t)
	} else {
		w.useMinimalSandbox()
	}
	w.configureUser(t, "")
	w.write(t, filepath.Join(w.home, ".gitconfig"), "[user]\nname = Una User\nemail = una@example.com\n[init]\ndefaultBranch = main\n")
	w.write(t, filepath.Join(w.repo, "specs", "things.md"), "# Things\n\nThere shall be things.\n")
	t.Cleanup(func() {
		if w.isMicroVM() {
			w.purgeFake(t)
		} else {
			w.removeContainers(t)
		}
		assert.Check(t, os.RemoveAll(w.dir))
	})
	w.chown(t, w.dir)
	w.git(t, "init", "-q")
	w.write(t, filepath.Join(w.repo, ".git", "info", "exclude"), ".ralph/\n")
	w.git(t, "remote", "add", "origin", "https://git.example/"+w.slug+".git")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-q", "-m", "first")
	if w.driver != config.DriverDockerSandbox {
		shared.images.build(t, w, "shell", engines.BaseImage())
	}
}

// ignore commits patterns of ignored files: what a run does not commit is set aside when it ends.
func (w *world) ignore(t *testing.T, patterns ...string) {
	t.Helper()
	w.write(t, filepath.Join(w.repo, ".gitignore"), strings.Join(patterns, "\n")+"\n")
	w.git(t, "add", ".gitignore")
	w.git(t, "commit", "-qm", "ignore")
}

// configureUser writes the user's configuration: the shell agent, and more.
// Docker sandbox builds no image on a base.
func (w *world) configureUser(t *testing.T, more string) {
	t.Helper()
	if w.driver != config.DriverDockerSandbox {
		more = "[image]\nbase = \"" + engines.BaseImage() + "\"\n" + more
	}
	w.write(t, filepath.Join(w.config, "ralph", "config.toml"), "[agent]\nname = \"shell\"\n"+more)
}

// install makes a docker-ralph the user's plugin.
func (w *world) install(t *testing.T, plugin string) {
	t.Helper()
	path := filepath.Join(w.config, "cli-plugins", "docker-ralph")
	assert.NilError(t, os.RemoveAll(path))
	assert.NilError(t, os.Symlink(plugin, path))
}

// write writes a file, owned by the user like the directories that it needs.
func (w *world) write(t *testing.T, path, content string) {
	t.Helper()
	made := path // the topmost that is new
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); err == nil {
			break
		}
		made = dir
	}
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
	w.chown(t, made)
}

// chown makes the user the owner of everything below a path.
func (w *world) chown(t *testing.T, path string) {
	t.Helper()
	assert.NilError(t, filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, w.uid, w.gid))
	}))
}

// setenv sets a variable of the user's environment.
func (w *world) setenv(name, value string) { w.env = append(w.env, name+"="+value) }

// prependPath puts a directory first on the user's PATH.
func (w *world) prependPath(dir string) {
	i := slices.IndexFunc(w.env, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") })
	w.env[i] = "PATH=" + dir + ":" + strings.TrimPrefix(w.env[i], "PATH=")
}

// useMinimalSandbox disables the proxy and the clone, which tests of other features do not need: a
// sandbox is one container then, with the worktree.
func (w *world) useMinimalSandbox() {
	w.setenv("RALPH_NETWORK", "allow-all")
	w.setenv("RALPH_WORKSPACE", "live")
}

// useDefaults has sandboxes as without any settings.
func (w *world) useDefaults() {
	w.setenv("RALPH_NETWORK", "")
	w.setenv("RALPH_WORKSPACE", "")
}

// command makes a command of the user, in the worktree, in a new process group.
func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if name == "docker" {
		cmd.Path, cmd.Err = filepath.Join(shared.bin, name), nil
	}
	cmd.Dir, cmd.Env = w.repo, slices.Clone(w.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid), Groups: w.socketGroups()}
	}
	return cmd
}

// socketGroups is the group that may use the engine's socket, like the group
// "docker" of many machines. Users of a remote engine are not in it.
func (w *world) socketGroups() []uint32 {
	if w.endpoint != nil {
		return nil
	}
	info, err := os.Stat(strings.TrimPrefix(w.engine.Host, "unix://"))
	if err != nil {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return []uint32{st.Gid}
	}
	return nil
}

// docker makes a docker command.
func (w *world) docker(args ...string) *exec.Cmd { return w.command("docker", args...) }

// ralph runs "docker ralph" with these arguments.
func (w *world) ralph(t *testing.T, args ...string) result {
	t.Helper()
	res := run(t, w.docker(append([]string{"ralph"}, args...)...))
	res.stderr = withoutProgress(res.stderr)
	return res
}

// ok runs "docker ralph", which has to succeed, and returns its output.
func (w *world) ok(t *testing.T, args ...string) string {
	t.Helper()
	return w.ralph(t, args...).expect(t, 0).stdout
}

// git runs git as the user and returns its output without the last newline.
func (w *world) git(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSuffix(run(t, w.command("git", args...)).expect(t, 0).stdout, "\n")
}

// createSandbox creates or prepares the sandbox of the current worktree and branch, with flags of "docker ralph".
// It has .ralph, in which tests and agents share files that no commit has.
func (w *world) createSandbox(t *testing.T, flags ...string) {
	t.Helper()
	w.ok(t, slices.Concat(flags, []string{"shell", "--", "mkdir", "-p", ".ralph"})...)
}

// containers returns the containers of the world's repository.
func (w *world) containers(t *testing.T) []container.Summary {
	t.Helper()
	res, err := w.engine.Client(t).ContainerList(context.WithoutCancel(t.Context()), client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", labelPrefix+"created-by=docker-ralph").Add("label", labelPrefix+"scope.repo="+w.slug),
	})
	assert.NilError(t, err)
	return res.Items
}

// helperContainers returns the other containers of the world's sandboxes, such as their proxies.
func (w *world) helperContainers(t *testing.T) []container.Summary {
	t.Helper()
	res, err := w.engine.Client(t).ContainerList(context.WithoutCancel(t.Context()), client.ContainerListOptions{All: true, Filters: w.nameFilter()})
	assert.NilError(t, err)
	return res.Items
}

// nameFilter selects what belongs to the world's repository by its name.
func (w *world) nameFilter() client.Filters {
	return make(client.Filters).Add("label", labelPrefix+"created-by=docker-ralph").Add("name", strings.ReplaceAll(w.slug, "/", "-"))
}

// container returns the one container of the world's repository.
func (w *world) container(t *testing.T) container.InspectResponse {
	t.Helper()
	all := w.containers(t)
	assert.Equal(t, len(all), 1)
	res, err := w.engine.Client(t).ContainerInspect(t.Context(), all[0].ID, client.ContainerInspectOptions{})
	assert.NilError(t, err)
	return res.Container
}

// sourceImage is the image of a sandbox. Its container's may be a user-mapped one.
func sourceImage(c container.InspectResponse) string { return c.Config.Labels[labelPrefix+"image"] }

// removeSandboxes removes the sandboxes of the world's repository without docker-ralph.
func (w *world) removeSandboxes(t *testing.T) {
	t.Helper()
	if !w.isMicroVM() {
		w.removeContainers(t)
		return
	}
	for _, sb := range w.sandboxes(t) {
		w.remove(t, sb)
	}
}

// removeContainers removes the containers and networks of the world's repository, and
// volumes whose container a test has removed itself. Commands of other tests prune the
// sandboxes of removed worktrees, so some may be removed meanwhile.
func (w *world) removeContainers(t *testing.T) {
	t.Helper()
	ctx, api := context.WithoutCancel(t.Context()), w.engine.Client(t)
	ours := w.nameFilter()
	eventually(t, func() error {
		networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
		assert.NilError(t, err)
		var errs []error
		add := func(err error) {
			if !errdefs.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
		for _, c := range append(w.containers(t), w.helperContainers(t)...) {
			_, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			add(err)
		}
		for _, n := range networks.Items {
			_, err := api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			add(err)
		}
		sockets, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
		assert.NilError(t, err)
		volumes := w.volumes(t)
		for _, v := range sockets.Items {
			volumes = append(volumes, v.Name)
		}
		for _, v := range volumes {
			_, err := api.VolumeRemove(ctx, v, client.VolumeRemoveOptions{Force: true})
			add(err)
		}
		return errors.Join(errs...)
	})
}

// volumes returns the names of the volumes of the world's repository.
func (w *world) volumes(t *testing.T) []string {
	t.Helper()
	res, err := w.engine.Client(t).VolumeList(context.WithoutCancel(t.Context()), client.VolumeListOptions{
		Filters: make(client.Filters).Add("label", labelPrefix+"scope.repo="+w.slug),
	})
	assert.NilError(t, err)
	var names []string
	for _, v := range res.Items {
		names = append(names, v.Name)
	}
	return names
}
