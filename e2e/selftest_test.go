//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// "selftest", and upgrades of the plugin.

// check is a result of "docker ralph selftest --format json".
type check struct {
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Skipped bool   `json:"skipped"`
	Detail  string `json:"detail"`
	Failed  string `json:"failed"`
	Remedy  string `json:"remedy"`
	Took    int64  `json:"took_ns"`
}

// selfTestIn makes the command that tests itself in a folder. Its temporary
// files have a place of their own.
func (w *world) selfTestIn(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	temporary := filepath.Join(w.dir, "temporary")
	for _, folder := range []string{temporary, dir} {
		assert.NilError(t, os.MkdirAll(folder, 0o755))
		assert.NilError(t, os.Lchown(folder, w.uid, w.gid))
	}
	cmd := w.docker(append([]string{"ralph", "selftest"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	return cmd
}

// selfTest runs the self-test in a folder, which has to end with this code, and
// makes sure that nothing is left of it.
func (w *world) selfTest(t *testing.T, dir string, code int, args ...string) []check {
	t.Helper()
	before := w.stateFiles(t)
	res := run(t, w.selfTestIn(t, dir, append([]string{"--format", "json"}, args...)...)).expect(t, code)
	var checks []check
	assert.NilError(t, json.Unmarshal([]byte(res.stdout), &checks), res.stdout)
	w.assertNothingLeft(t)
	left := w.labelled(t, named(t, checks, "sandbox").Detail)
	assert.Equal(t, len(left), 0, "left: %v", left)
	assert.DeepEqual(t, w.stateFiles(t), before)
	return checks
}

// stateFiles are the files that docker-ralph keeps about sandboxes.
func (w *world) stateFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, folder := range []string{"scopes", "locks"} {
		err := filepath.WalkDir(filepath.Join(w.config, "ralph", folder), func(path string, entry fs.DirEntry, err error) error {
			shared := strings.HasPrefix(filepath.Base(path), "image-") || strings.HasPrefix(filepath.Base(path), "sbx-") || filepath.Base(path) == "client"
			if err == nil && !entry.IsDir() && !shared {
				files = append(files, path)
			}
			return nil
		})
		assert.NilError(t, err)
	}
	return files
}

// assertNothingLeft asserts that a self-test has removed what it created.
func (w *world) assertNothingLeft(t *testing.T) {
	t.Helper()
	temporary := filepath.Join(w.dir, "temporary")
	var files []string
	assert.NilError(t, filepath.WalkDir(temporary, func(path string, _ os.DirEntry, err error) error {
		if path != temporary {
			files = append(files, path)
		}
		return err
	}))
	assert.Equal(t, len(files), 0, "left: %v", files)
	ctx, api := context.WithoutCancel(t.Context()), w.engine.Client(t)
	ours := make(client.Filters).Add("label", labelPrefix+"worktree")
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	assert.NilError(t, err)
	for _, c := range containers.Items {
		assert.Check(t, !strings.HasPrefix(c.Labels[labelPrefix+"worktree"], temporary), "left: %v", c.Names)
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	assert.NilError(t, err)
	for _, v := range volumes.Items {
		assert.Check(t, !strings.HasPrefix(v.Labels[labelPrefix+"worktree"], temporary), "left: %s", v.Name)
	}
	if w.isMicroVM() {
		listed := run(t, w.microVMCommand("ls", "--json")).expect(t, 0).stdout
		assert.Check(t, !strings.Contains(listed, "selftest"), listed)
	}
}

// labelled lists what the engine has of a sandbox.
func (w *world) labelled(t *testing.T, sandbox string) (found []string) {
	t.Helper()
	ctx, api := t.Context(), w.engine.Client(t)
	filter := make(client.Filters).Add("label", labelPrefix+"sandbox="+sandbox)
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	assert.NilError(t, err)
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	assert.NilError(t, err)
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	assert.NilError(t, err)
	for _, c := range containers.Items {
		found = append(found, "container "+strings.TrimPrefix(c.Names[0], "/"))
	}
	for _, v := range volumes.Items {
		found = append(found, "volume "+v.Name)
	}
	for _, n := range networks.Items {
		found = append(found, "network "+n.Name)
	}
	return found
}

// summary is a line for each check: its name and how it went.
func summary(checks []check) string {
	var b strings.Builder
	for _, c := range checks {
		how := "failed"
		switch {
		case c.OK:
			how = "ok"
		case c.Skipped:
			how = "skipped"
		}
		_, _ = fmt.Fprintln(&b, c.Check+":", how)
	}
	return b.String()
}

// named returns the check of a name.
func named(t *testing.T, checks []check, name string) check {
	t.Helper()
	for _, c := range checks {
		if c.Check == name {
			return c
		}
	}
	t.Fatalf("there is no %q in:\n%s", name, summary(checks))
	return check{}
}

const allPassed = `engine: ok
BuildKit: ok
driver: ok
agent image: ok
sandbox: ok
ralph: ok
commit: ok
clean up: ok
`

// It works outside of repositories, and the user's own sandbox is none of its
// business, whatever the environment says. Git need not know who the user is.
func TestSelfTest(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.createUnrelatedMicroVM(t)
		w.ok(t, "task", "create", "a", "Title")
		w.createSandbox(t)
		own := w.sandbox(t)
		w.setenv("RALPH_SCOPE_REPO", w.slug)
		w.setenv("RALPH_SCOPE_BRANCH", "main")
		w.setenv("GIT_CONFIG_GLOBAL", os.DevNull)

		checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), 0)
		assert.Equal(t, summary(checks), allPassed)
		for _, c := range checks {
			assert.Check(t, c.Detail != "" && c.Failed == "" && c.Remedy == "" && c.Took > 0, "%+v", c)
		}
		host := w.engine.Host
		if w.endpoint != nil {
			host = w.endpoint.host
		}
		assert.Check(t, is.Contains(named(t, checks, "engine").Detail, host))
		assert.Check(t, is.Contains(named(t, checks, "driver").Detail, w.driver))
		assert.Check(t, is.Regexp(`^ralph-selftest-[a-z0-9]+-main$`, named(t, checks, "sandbox").Detail))
		assert.Check(t, is.Regexp(fmt.Sprintf(`^[0-9a-f]{7,} belongs to %d:%d$`, w.uid, w.gid), named(t, checks, "commit").Detail))

		assert.DeepEqual(t, w.sandbox(t), own)
		if !w.isMicroVM() { // what is looked for afterwards would be found
			parts := w.labelled(t, own.Name)
			assert.Check(t, is.Contains(parts, "container "+own.Name))
			assert.Check(t, is.Regexp(`volume [0-9a-f]{64}`, strings.Join(parts, "\n")))
		}
		assert.DeepEqual(t, w.statuses(t), map[string]string{"a": "open"})
	})
}

// The image that it builds is the one that the next dispatch uses.
func TestSelfTestInAProject(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.repo, ".agent-loop", "Dockerfile.sandbox"), "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nLABEL e2e="+w.slug+"\n")
		checks := w.selfTest(t, filepath.Join(w.repo, "specs"), 0)
		assert.Check(t, is.Contains(named(t, checks, "build project image").Detail, `Dockerfile.sandbox is not approved (new Dockerfile.sandbox): review it, then run "docker ralph trust"`))
		w.ok(t, "trust", "--force")
		checks = w.selfTest(t, filepath.Join(w.repo, "specs"), 0)
		assert.Equal(t, summary(checks), strings.Replace(allPassed, "sandbox: ok\n", "build project image: ok\nsandbox: ok\n", 1))
		tag, built := strings.CutSuffix(named(t, checks, "build project image").Detail, " (built now)")
		assert.Check(t, built)
		t.Cleanup(func() {
			w.removeSandboxes(t)
			run(t, w.docker("rmi", "-f", tag))
		})
		assert.Assert(t, is.Regexp(`^agent-loop-sandbox-shell-`+filepath.Base(w.repo)+`:v[0-9a-f]{8}$`, tag))

		w.createSandbox(t)
		assert.Equal(t, sourceImage(w.container(t)), tag)
	})
}

func TestSelfTestInAProjectWithAnError(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		file := filepath.Join(w.repo, ".agent-loop", "dependencies")
		w.write(t, file, "tree\nno;package\n")
		res := run(t, w.selfTestIn(t, w.repo)).expect(t, 1)
		assert.Check(t, is.Contains(res.stdout, "\n    "+file+":2:"))
		assert.Check(t, is.Equal(res.stderr, "Error: selftest failed\n"))
		checks := regexp.MustCompile(`(?m)^([a-zA-Z]+( [a-z]+)*)  +(ok|skipped|FAILED) `).FindAllStringSubmatch(res.stdout, -1)
		var table strings.Builder
		for _, c := range checks {
			_, _ = fmt.Fprintln(&table, c[1]+":", strings.ToLower(c[3]))
		}
		assert.Equal(t, table.String(), strings.Replace(allPassed, "sandbox: ok\n", "build project image: failed\nsandbox: ok\n", 1))
		w.assertNothingLeft(t)
	})
}

func TestSelfTestWithoutAnEngine(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		dead := "unix://" + filepath.Join(w.dir, "no.sock")
		engine := w.engine.Host
		w.setenv("DOCKER_HOST", dead)
		code := 1
		if w.isMicroVM() {
			w.createUnrelatedMicroVM(t)
			code = 0
		}
		checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), code)
		first := checks[0]
		if w.isMicroVM() { // it does without
			assert.Equal(t, summary(checks), strings.Replace(allPassed, "engine: ok\nBuildKit: ok\n", "engine: skipped\nBuildKit: skipped\n", 1))
			assert.Check(t, is.Contains(first.Detail, "not needed by the "+w.driver+" driver"))
			return
		}
		assert.Equal(t, summary(checks), strings.Replace(strings.ReplaceAll(allPassed, ": ok", ": skipped"), "engine: skipped", "engine: failed", 1))
		assert.Check(t, is.Contains(first.Failed, dead))
		assert.Check(t, is.Contains(first.Remedy, "docker context use"))
		assert.Check(t, !strings.Contains(first.Failed, engine))
	})
}

// Commits of a sandbox that works on a clone arrive too.
func TestSelfTestWithAClone(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.createUnrelatedMicroVM(t)
		w.setenv("RALPH_WORKSPACE", "clone")
		if w.driver == config.DriverSbx {
			assert.Equal(t, summary(w.selfTest(t, filepath.Join(w.dir, "nowhere"), 0)), allPassed)
			return
		}
		checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), 1)
		assert.Check(t, is.Contains(named(t, checks, "sandbox").Failed, "works with the drivers container and sbx only"))
		assert.Check(t, named(t, checks, "clean up").OK)
	})
}

func TestSelfTestWithAnUnusableDriver(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.setPath(shared.fakes, false)
		checks := w.selfTest(t, filepath.Join(w.dir, "nowhere"), 1)
		driver := named(t, checks, "driver")
		assert.Check(t, is.Contains(driver.Failed, "sbx is not on PATH"))
		assert.Check(t, is.Contains(driver.Remedy, "install Docker Sandboxes"))
		assert.Check(t, named(t, checks, "sandbox").Skipped)
	})
}

// An interrupt ends it at once, wherever it is, and nothing stays.
func TestSelfTestInterrupted(t *testing.T) {
	t.Parallel()
	interrupt := func(t *testing.T, w *world, after string) {
		w.createUnrelatedMicroVM(t)
		before := w.stateFiles(t)
		test := start(t, w.selfTestIn(t, filepath.Join(w.dir, "nowhere")))
		test.stdout.WaitFor(t, "\n"+after+" ")
		test.signalGroup(syscall.SIGINT)
		res := test.wait(t).expect(t, 130)
		assert.Check(t, !strings.Contains(res.stdout, "FAILED"), res.stdout)
		assert.Equal(t, res.stderr, "")
		w.assertNothingLeft(t)
		assert.DeepEqual(t, w.stateFiles(t), before)
	}
	t.Run("while the sandbox is made", func(t *testing.T) {
		onDrivers(t, func(t *testing.T, w *world) { interrupt(t, w, "agent image") })
	})
	t.Run("while ralph runs", func(t *testing.T) {
		onEngines(t, func(t *testing.T, w *world) { interrupt(t, w, "sandbox") })
	})
}

// A new version of the plugin installs its ralph into existing and new sandboxes.
func TestUpgradeReplacesRalphInTheSandbox(t *testing.T) {
	andRemote(t, func(t *testing.T, upgrade func(t *testing.T, w *world)) {
		t.Parallel()
		engines.Each(t, func(t *testing.T, e engines.Engine) {
			t.Parallel()
			for _, driver := range []string{config.DriverContainer, microVMFor(e)} {
				t.Run("the sandbox stays and gets the new ralph, "+driver, func(t *testing.T) {
					t.Parallel()
					upgrade(t, newDriverWorld(t, e, driver))
				})
			}
			t.Run("two users bring the same ralph at the same moment", func(t *testing.T) { installTwice(t, e) })
		})
	}, upgradeSandbox)
}

func upgradeSandbox(t *testing.T, w *world) {
	newer, err := shared.newer()
	assert.NilError(t, err)
	w.plan(t,
		task{ID: "1", Title: "Before", Priority: 1, Steps: []string{"ralph version >before"}},
		task{ID: "2", Title: "After", Priority: 2, Steps: []string{"ralph version >after"}},
		task{ID: "3", Title: "Back", Priority: 3, Steps: []string{"ralph version >back"}})
	w.ok(t, "build", "-n", "1")
	sandbox := w.sandbox(t)

	w.install(t, newer)
	w.ok(t, "build", "-n", "1")
	assert.Equal(t, w.read(t, "after"), "ralph "+newerVersion+"\n")
	assert.Assert(t, w.read(t, "before") != w.read(t, "after"))
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)

	// And back again.
	w.install(t, shared.plugin)
	w.ok(t, "build", "-n", "1")
	assert.Equal(t, w.read(t, "back"), w.read(t, "before"))
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)
}

func installTwice(t *testing.T, e engines.Engine) {
	newer, err := shared.newer()
	assert.NilError(t, err)
	one, two := newWorld(t, e), newWorld(t, e)
	one.install(t, newer)
	two.install(t, newer)
	one.createSandbox(t)
	program := one.container(t).Config.Entrypoint[0] // /opt/ralph/VERSION/ralph
	one.removeSandboxes(t)
	run(t, one.docker("rmi", "docker-ralph/guest:"+filepath.Base(filepath.Dir(program)))).expect(t, 0)

	first := start(t, one.docker("ralph", "shell", "--", "ralph", "version"))
	second := start(t, two.docker("ralph", "shell", "--", "ralph", "version"))
	first.wait(t).expect(t, 0)
	second.wait(t).expect(t, 0)
}
