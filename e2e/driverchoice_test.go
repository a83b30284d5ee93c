//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
)

// Which driver a sandbox gets when the user chooses one, and when not.

// creationMessage is printed when a sandbox is created.
func creationMessage(sb sandbox, driver, why string) string {
	return fmt.Sprintf("Creating sandbox %s with the %s driver%s\n", sb.Name, driver, why)
}

// assertMessages asserts that the command that creates a sandbox has printed a message and a warning.
func assertMessages(t *testing.T, res result, message, warning string) {
	t.Helper()
	assert.Check(t, is.Contains(res.stderr, message))
	assert.Check(t, is.Regexp("(?m)^Warning: .*"+regexp.QuoteMeta(warning), res.stderr))
}

func TestDefaultDriverIsSbx(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.configureUser(t, "")
		w.createUnrelatedMicroVM(t)
		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		made := w.sandbox(t)
		assertMessages(t, res, creationMessage(made, "sbx", ""), `is not fully enforced by sbx: your own rules of sbx allow more`)
		assert.Check(t, !strings.Contains(w.ralph(t, "shell", "--", "true").expect(t, 0).stderr, "Creating"))
		assert.Equal(t, len(w.containers(t)), 0)

		// The sandbox keeps its driver, even if that can no longer be used.
		w.setPath(shared.fakes, false)
		res = w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "sbx is not on PATH"))
		w.setPath(shared.fakes, true)
		w.configureFake(t, func(s *sandboxcli.Settings) { s.LoggedIn = false })
		res = w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "sbx login"))
		w.configureFake(t, func(s *sandboxcli.Settings) { s.LoggedIn = true })
		assert.Equal(t, len(w.containers(t)), 0)
		w.createSandbox(t)
		assert.Equal(t, w.sandbox(t).ID, made.ID)
	})
}

func TestDefaultDriverWithoutSbxIsDockerSandbox(t *testing.T) {
	onMicroVM(t, config.DriverDockerSandbox, func(t *testing.T, w *world) {
		w.configureUser(t, "")
		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		made := w.sandbox(t)
		assertMessages(t, res, creationMessage(made, "docker-sandbox", " (no sbx)"), `is not fully enforced by docker-sandbox`)
		assert.Check(t, !strings.Contains(w.ralph(t, "shell", "--", "true").expect(t, 0).stderr, "Creating"))

		// Docker Desktop's next version has none, but no other driver replaces it.
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.Removed = true })
		res = w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "4.80 removed it"))
		assert.Equal(t, len(w.containers(t)), 0)
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.Removed = false })

		// Nor when sbx appears.
		w.setPath(shared.fakes, true)
		w.createSandbox(t)
		assert.Equal(t, w.sandbox(t).ID, made.ID)
	})
}

func TestDefaultDriverWithoutMicroVMsIsContainer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, why string
		lacking   func(t *testing.T, w *world)
	}{
		{"no program", "no sbx; no docker sandbox", func(_ *testing.T, w *world) { w.setPath(shared.fakes, false) }},
		{"logged out", "sbx is not logged in to Docker; no docker sandbox", func(t *testing.T, w *world) {
			w.configureFake(t, func(s *sandboxcli.Settings) { s.LoggedIn = false })
		}},
		{"no policy", "the network policy of sbx is not set; no docker sandbox", func(t *testing.T, w *world) {
			w.configureFake(t, func(s *sandboxcli.Settings) { s.PolicyInitialised = false })
		}},
		{"no KVM", "this machine has no KVM, which sbx needs for its microVMs (there is no /nonexistent/kvm); no docker sandbox", func(_ *testing.T, w *world) {
			w.setenv("RALPH_KVM", "/nonexistent/kvm")
		}},
		{"the removed plugin", "no sbx; this Docker Desktop has no \"docker sandbox\" (4.80 removed it)", func(t *testing.T, w *world) {
			w.setPath(shared.fakes, false)
			w.installDockerSandbox(t)
			w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.Removed = true })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
				w.configureUser(t, "")
				tc.lacking(t, w)
				res := w.ralph(t, "shell", "--", "true").expect(t, 0)
				made := w.container(t)
				assert.Check(t, is.Contains(res.stderr, creationMessage(sandbox{Name: made.Name[1:]}, "container", " ("+tc.why+")")))

				// It stays a container when sbx works later.
				w.setPath(shared.fakes, true)
				w.setenv("RALPH_KVM", os.DevNull)
				w.configureFake(t, func(s *sandboxcli.Settings) { s.LoggedIn, s.PolicyInitialised = true, true })
				assert.Check(t, !strings.Contains(w.ralph(t, "shell", "--", "true").expect(t, 0).stderr, "Creating"))
				assert.Equal(t, w.container(t).ID, made.ID)
				assert.Equal(t, len(w.microVMs(t)), 0)
			})
		})
	}
}

// A chosen driver that cannot be used is an error.
func TestChosenDriverIsNotReplaced(t *testing.T) {
	t.Parallel()
	type fault struct {
		name, driver, want string
		change             func(t *testing.T, w *world, broken bool)
	}
	all := []fault{
		{"no sbx", "sbx", "sbx is not on PATH", func(_ *testing.T, w *world, broken bool) { w.setPath(shared.fakes, !broken) }},
		{"logged out", "sbx", "log in with \"sbx login\"", setting(func(s *sandboxcli.Settings, broken bool) { s.LoggedIn = !broken })},
		{"no policy", "sbx", "set one with \"sbx policy init balanced\"", setting(func(s *sandboxcli.Settings, broken bool) { s.PolicyInitialised = !broken })},
		{"no KVM", "sbx", "this machine has no KVM", setting(func(s *sandboxcli.Settings, broken bool) { s.Faults.KVM = broken })},
		{"no daemon", "sbx", "sbx daemon start --detach", setting(func(s *sandboxcli.Settings, broken bool) { s.Faults.NoDaemon = broken })},
		{"removed, on stdout", "docker-sandbox", "4.80 removed it", setting(func(s *sandboxcli.Settings, broken bool) { s.Faults.Removed = broken })},
		{"removed, on stderr", "docker-sandbox", "4.80 removed it", setting(func(s *sandboxcli.Settings, broken bool) {
			s.Faults.Removed, s.Faults.RemovedStderr, s.Faults.RemovedExit = broken, broken, 1
		})},
		{"no plugin", "docker-sandbox", "no \"docker sandbox\"", func(t *testing.T, w *world, broken bool) {
			if !broken {
				w.installDockerSandbox(t)
				return
			}
			assert.NilError(t, os.Remove(filepath.Join(w.config, "cli-plugins", "docker-sandbox")))
		}},
	}
	for _, driver := range []string{config.DriverSbx, config.DriverDockerSandbox} {
		t.Run(driver, func(t *testing.T) {
			onMicroVM(t, driver, func(t *testing.T, w *world) {
				w.configureUser(t, "")
				command := []string{"--driver", driver, "shell", "--", "echo", "a"}
				for _, tc := range all {
					if tc.driver != driver {
						continue
					}
					tc.change(t, w, true)
					res := w.ralph(t, command...).expect(t, 1)
					assert.Check(t, is.Equal(res.stdout, ""))
					assert.Check(t, is.Contains(res.stderr, "Error: "))
					assert.Check(t, is.Contains(res.stderr, tc.want), tc.name)
					assert.Equal(t, len(w.containers(t)), 0)
					tc.change(t, w, false)
					assert.Equal(t, len(w.microVMs(t)), 0, tc.name)
				}
				assert.Equal(t, w.ok(t, command...), "a\n")
				assert.Equal(t, len(w.microVMs(t)), 1)
			})
		})
	}
}

// setting is a reversible change of the fake.
func setting(change func(s *sandboxcli.Settings, broken bool)) func(*testing.T, *world, bool) {
	return func(t *testing.T, w *world, broken bool) {
		t.Helper()
		w.configureFake(t, func(s *sandboxcli.Settings) { change(s, broken) })
	}
}

// A repository may not choose the weaker isolation without approval.
func TestContainerDriverInRalphTomlNeedsApproval(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		w.configureUser(t, "")
		w.configure(t, "[sandbox]\ndriver = \"container\"\n")
		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, `sandbox.driver = "container"`))
		assert.Check(t, is.Contains(res.stderr, "docker ralph trust"))
		assert.Equal(t, len(w.containers(t)), 0)
		assert.Equal(t, len(w.microVMs(t)), 0)

		w.ok(t, "trust", "--force")
		w.createSandbox(t)
		assert.Equal(t, len(w.containers(t)), 1)
		assert.Equal(t, len(w.microVMs(t)), 0)
	})
}

// docker-sandbox is called with the same --config and --context or --host.
func TestDockerSandboxGetsTheContextAndConfig(t *testing.T) {
	onMicroVM(t, config.DriverDockerSandbox, func(t *testing.T, w *world) {
		run(t, w.docker("context", "create", "here", "--docker", "host="+w.engine.Host)).expect(t, 0)
		w.setenv("DOCKER_HOST", "")
		elsewhere := filepath.Join(w.dir, "elsewhere") // has no plugins
		assert.NilError(t, os.Mkdir(elsewhere, 0o755))
		w.chown(t, elsewhere)
		for n, where := range [][2]string{{"context", "here"}, {"host", w.engine.Host}} {
			before, id := len(w.calls(t)), fmt.Sprint(n)
			for _, args := range [][]string{{"task", "create", id, "Title " + id, "-s", `["echo a >a` + id + `"]`}, {"build"}} {
				cmd := w.docker(append([]string{"--config", w.config, "--" + where[0], where[1], "ralph"}, args...)...)
				cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+elsewhere)
				run(t, cmd).expect(t, 0)
			}
			assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Title "+id)

			for _, c := range w.calls(t)[before:] {
				assert.Check(t, slices.Contains(c.Args, "--config="+w.config), "%q", c.Args)
				assert.Check(t, slices.Contains(c.Args, "--"+where[0]+"="+where[1]), "%q", c.Args)
			}
		}
	})
}

// calls are the calls of the fake.
func (w *world) calls(t *testing.T) []sandboxcli.Call {
	t.Helper()
	calls, err := sandboxcli.Calls(w.fakeDir)
	assert.NilError(t, err)
	return calls
}
