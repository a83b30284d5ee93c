//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// MicroVM drivers, whose programs are fakes that run containers.

// onDrivers runs a test in containers, and with fakes of the microVM programs, whose
// microVMs are containers.
func onDrivers(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, p := range targets(t) {
		t.Run(p.engine.Name+"/"+p.driver, func(t *testing.T) {
			t.Parallel()
			test(t, newDriverWorld(t, p.engine, p.driver))
		})
	}
}

// onMicroVMs runs a test with both microVM programs.
func onMicroVMs(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, driver := range []string{config.DriverSbx, config.DriverDockerSandbox} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, newDriverWorld(t, engineForFake(t, driver), driver))
		})
	}
}

// onMicroVM runs a test with one of the microVM programs.
func onMicroVM(t *testing.T, driver string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	test(t, newDriverWorld(t, engineForFake(t, driver), driver))
}

// microVMFor is the microVM program whose fake is tested on an engine.
func microVMFor(e engines.Engine) string {
	if e.Kind() == "debian" {
		return config.DriverDockerSandbox
	}
	return config.DriverSbx
}

// newDriverWorld makes the world of an ordinary user whose configuration chooses
// the driver.
func newDriverWorld(t *testing.T, e engines.Engine, driver string) *world {
	t.Helper()
	w := &world{engine: e, driver: driver, uid: os.Getuid(), gid: os.Getgid()}
	if w.uid == 0 {
		w.uid, w.gid = userUID, userGID
	}
	w.setUp(t)
	if w.isMicroVM() {
		w.configureUser(t, "[sandbox]\ndriver = \""+driver+"\"\n")
		shared.images.seedTemplates(t, w)
	}
	return w
}

// isMicroVM reports whether the world's sandboxes are microVMs.
func (w *world) isMicroVM() bool { return w.fakeDir != "" }

// stateAfterLoop is the state of a sandbox whose loop has ended: sbx keeps one awake until it is stopped.
func (w *world) stateAfterLoop() lifecycle.State {
	if w.driver == config.DriverSbx {
		return lifecycle.Stopped
	}
	return lifecycle.Running
}

// driverFlags are the flags that choose the world's driver, for a user without a
// configuration.
func (w *world) driverFlags() []string {
	if w.isMicroVM() {
		return []string{"--driver", w.driver}
	}
	return nil
}

// setUpFake installs the fake of the world's microVM program.
func (w *world) setUpFake(t *testing.T) {
	t.Helper()
	w.fakeDir = filepath.Join(w.dir, "fake")
	assert.NilError(t, os.Mkdir(w.fakeDir, 0o755))
	s := sandboxcli.Defaults()
	s.Mode, s.Engine, s.Template = sandboxcli.ModeContainer, w.engine.Host, engines.BaseImage()
	s.Disk = w.repo
	s.Idle = sandboxcli.Duration(10 * time.Minute) // no test takes as long
	assert.NilError(t, s.Save(w.fakeDir))
	w.setenv(sandboxcli.DirEnv, w.fakeDir)
	w.setenv("RALPH_KVM", os.DevNull)
	switch w.driver {
	case config.DriverSbx:
		w.setPath(shared.fakes, true)
	case config.DriverDockerSandbox:
		w.installDockerSandbox(t)
	}
}

// installDockerSandbox makes docker-sandbox a plugin of the user.
func (w *world) installDockerSandbox(t *testing.T) {
	t.Helper()
	assert.NilError(t, os.Symlink(filepath.Join(shared.fakes, "docker-sandbox"), filepath.Join(w.config, "cli-plugins", "docker-sandbox")))
}

// setPath puts a directory at the front of the user's PATH, or removes it.
func (w *world) setPath(dir string, there bool) {
	for i, kv := range w.env {
		if rest, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs := slices.DeleteFunc(strings.Split(rest, ":"), func(d string) bool { return d == dir })
			if there {
				dirs = append([]string{dir}, dirs...)
			}
			w.env[i] = "PATH=" + strings.Join(dirs, ":")
		}
	}
}

// configureFake changes how the fake behaves.
func (w *world) configureFake(t *testing.T, change func(*sandboxcli.Settings)) {
	t.Helper()
	assert.NilError(t, sandboxcli.Update(w.fakeDir, change))
}

// microVMCommand makes a command of the microVM program.
func (w *world) microVMCommand(args ...string) *exec.Cmd {
	if w.driver == config.DriverDockerSandbox {
		return w.docker(append([]string{"sandbox"}, args...)...)
	}
	return w.command(filepath.Join(shared.fakes, "sbx"), args...)
}

// createUnrelatedMicroVM creates another microVM, so that the program's list is not
// empty.
func (w *world) createUnrelatedMicroVM(t *testing.T) {
	t.Helper()
	if w.isMicroVM() {
		dir := filepath.Join(w.dir, "neighbour")
		assert.NilError(t, os.Mkdir(dir, 0o755))
		w.chown(t, dir)
		run(t, w.microVMCommand("create", "--name", "neighbour", "shell", dir)).expect(t, 0)
	}
}

// sandbox is a sandbox of the world's repository, of any driver.
type sandbox struct {
	Name    string
	ID      string // of its container; changes when the sandbox is recreated
	Running bool
}

// sandboxes returns the sandboxes of the world's repository.
func (w *world) sandboxes(t *testing.T) []sandbox {
	t.Helper()
	if w.isMicroVM() {
		return w.microVMs(t)
	}
	var all []sandbox
	for _, c := range w.containers(t) {
		all = append(all, sandbox{strings.TrimPrefix(c.Names[0], "/"), c.ID, c.State == "running"})
	}
	return all
}

// sandbox returns the one sandbox of the world's repository.
func (w *world) sandbox(t *testing.T) sandbox {
	t.Helper()
	all := w.sandboxes(t)
	assert.Equal(t, len(all), 1)
	return all[0]
}

// microVMs are the sandboxes that the microVM program lists for the world's
// repository. Their IDs are those of the fake's containers.
func (w *world) microVMs(t *testing.T) []sandbox {
	t.Helper()
	out := run(t, w.microVMCommand("ls", "--json")).expect(t, 0).stdout
	root := map[string]string{config.DriverSbx: "sandboxes", config.DriverDockerSandbox: "vms"}[w.driver]
	entries, err := microvm.ParseListing([]byte(out), root)
	assert.NilError(t, err)
	name, err := gitrepo.Scope{Repo: w.slug, Branch: "x"}.SandboxName()
	assert.NilError(t, err)
	var all []sandbox
	for _, e := range entries {
		if strings.HasPrefix(e.Name, strings.TrimSuffix(name, "x")) {
			all = append(all, sandbox{e.Name, w.containerOf(t, e.Name), e.Status == "running"})
		}
	}
	return all
}

// containerOf returns the container that the fake runs for a microVM.
func (w *world) containerOf(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(w.fakeDir)
	assert.NilError(t, err)
	res, err := w.engine.Client(t).ContainerList(context.WithoutCancel(t.Context()), client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", sandboxcli.Label+"="+dir),
	})
	assert.NilError(t, err)
	for _, c := range res.Items {
		if strings.HasSuffix(c.Names[0], "-"+name) {
			return c.ID
		}
	}
	t.Fatalf("there is no container for %s", name)
	return ""
}

// stop stops a sandbox without docker-ralph.
func (w *world) stop(t *testing.T, sb sandbox) {
	t.Helper()
	if w.isMicroVM() {
		run(t, w.microVMCommand("stop", sb.Name)).expect(t, 0)
		return
	}
	run(t, w.docker("stop", "-t", "5", sb.ID)).expect(t, 0)
}

// remove removes a sandbox likewise.
func (w *world) remove(t *testing.T, sb sandbox) {
	t.Helper()
	switch w.driver {
	case config.DriverSbx:
		run(t, w.microVMCommand("rm", "--force", sb.Name)).expect(t, 0)
	case config.DriverDockerSandbox:
		run(t, w.microVMCommand("rm", sb.Name)).expect(t, 0)
	default:
		run(t, w.docker("rm", "-f", sb.ID)).expect(t, 0)
	}
}

// processesWith returns the processes that have all of the texts in their
// command lines, whose arguments end with a zero byte each.
func processesWith(texts ...string) []int {
	var found []int
	for _, name := range processes() {
		argv, _ := os.ReadFile("/proc/" + name + "/cmdline") // some have ended
		has := len(argv) > 0
		for _, text := range texts {
			has = has && strings.Contains(string(argv), text)
		}
		if pid, err := strconv.Atoi(name); has && err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// purgeFake removes the fake's containers and ends its processes.
func (w *world) purgeFake(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
	defer cancel()
	assert.Check(t, sandboxcli.Purge(ctx, w.fakeDir))
	w.removeContainers(t)
}

// imageStore has what many worlds need and what takes longer than their tests:
// images of agents, and the list of images that the fake of sbx has loaded.
type imageStore struct {
	mu        sync.Mutex
	templates map[string]string // by engine
	agents    sync.Map          // func() error by engine and agent
}

// build makes sure that an engine has an agent's image before a dispatch is
// timed: on a new machine it installs packages first.
func (s *imageStore) build(t *testing.T, w *world, agent, base string) {
	t.Helper()
	once, _ := s.agents.LoadOrStore(w.engine.Name+" "+agent, sync.OnceValue(func() error {
		cmd := w.docker("ralph", "--agent", agent, "--base", base, "image", "build", "--progress", "plain")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the image of %s: %w\n%s", agent, err, out)
		}
		return nil
	}))
	assert.NilError(t, once.(func() error)())
}

const templatesOfSbx = "sbx/templates.json"

// seedTemplates loads the image of the shell agent into a world's sbx, as an earlier
// command would have.
func (s *imageStore) seedTemplates(t *testing.T, w *world) {
	t.Helper()
	if w.driver != config.DriverSbx {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file := filepath.Join(w.fakeDir, templatesOfSbx)
	if s.templates[w.engine.Name] != "" {
		w.write(t, file, s.templates[w.engine.Name])
		w.chown(t, w.fakeDir)
		return
	}
	first := *w
	first.setenv("RALPH_SCOPE_BRANCH", "image")
	first.createSandbox(t, "--recreate")
	first.remove(t, first.sandbox(t))
	assert.NilError(t, os.RemoveAll(filepath.Join(w.config, "ralph", "scopes")))
	content, err := os.ReadFile(file)
	assert.NilError(t, err)
	assert.Assert(t, json.Valid(content))
	if s.templates == nil {
		s.templates = map[string]string{}
	}
	s.templates[w.engine.Name] = string(content)
}
