//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
)

// MicroVMs: lost connections to their programs, their images, and network policies.

// tickingTask waits for the file "go", and writes the time while it does.
func tickingTask() task {
	return task{ID: "slow", Title: "Wait for go", Steps: []string{
		"touch begun; while ! test -e go; do date +%s >>ticks; sleep 0.1; done; rm ticks",
	}}
}

// A loop in sbx continues when all its processes on the host are killed, although sbx would stop an idle microVM.
// Later commands report it.
func TestLoopContinuesAndIsReportedAfterItsClientWasKilled(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		const idle = 2 * time.Second
		w.plan(t, tickingTask())
		w.killLoop(t, idle)
		sb := w.sandbox(t)

		w.waitForTick(t, time.Now().Add(2*idle))
		res := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, is.Regexp(`(?m)^Warning: "ralph build" is still running in the background in sandbox `+sb.Name+`, since [0-9]{2}:[0-9]{2} \(.* ago\)\nHint: follow it with "docker ralph logs -f `+sb.Name+`", attach with "docker ralph attach `+sb.Name+`", stop it with "docker ralph stop `+sb.Name+`"$`, res.stderr))
		assert.Equal(t, w.sandbox(t).ID, sb.ID)

		w.write(t, w.pathInside(t, "go"), "")
		w.ok(t, "attach")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
		w.ok(t, "build") // with nothing to do
		assert.Assert(t, !w.sandbox(t).Running, "nothing keeps it running after a loop")
	})
}

// docker sandbox stops a microVM without a session, and a loop with it. The next loop continues with the task.
func TestLoopIsStartedAgainAfterItsClientWasKilled(t *testing.T) {
	onMicroVM(t, config.DriverDockerSandbox, func(t *testing.T, w *world) {
		w.plan(t, tickingTask())
		w.killLoop(t, 2*time.Second)
		eventually(t, func() error {
			if w.sandbox(t).Running {
				return errors.New("it still runs")
			}
			return nil
		})
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(time.Hour) })
		w.write(t, w.pathInside(t, "go"), "")
		w.ok(t, "build")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	})
}

// killLoop starts a loop, and kills all its processes on the host while its task runs. Microvms stop after the time when
// they are idle.
func (w *world) killLoop(t *testing.T, idle time.Duration) {
	t.Helper()
	build := start(t, w.docker("ralph", "build"))
	waitForFile(t, w.pathInside(t, "begun"))
	w.configureFake(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(idle) })
	clients := processesWith("\x00"+w.sandbox(t).Name+"\x00", "\x00_dispatch\x00")
	assert.Assert(t, len(clients) > 0)
	build.signalGroup(syscall.SIGKILL)
	for _, pid := range clients {
		assert.NilError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	build.wait(t)
}

// waitForTick waits until a ticking task has written a later time.
func (w *world) waitForTick(t *testing.T, moment time.Time) {
	t.Helper()
	eventually(t, func() error {
		ticks, err := os.ReadFile(w.pathInside(t, "ticks"))
		if err != nil {
			return err // it has not ticked yet
		}
		last := ""
		for line := range strings.Lines(string(ticks)) {
			last = strings.TrimSpace(line)
		}
		if tick, err := strconv.ParseInt(last, 10, 64); err != nil || tick <= moment.Unix() {
			return fmt.Errorf("the last tick is %q", last)
		}
		return nil
	})
}

// A program that has lost its engine lists nothing. Nothing is created or deleted
// then.
func TestEmptyListDoesNotRecreateTheMicroVM(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		made := w.sandbox(t)
		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.EmptyList = true })
		before := len(w.calls(t))

		res := w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Check(t, is.Equal(res.stdout, ""))
		for _, part := range []string{"Error: unknown state of sandbox " + made.Name + " (driver " + w.driver + ")", "but this one was created", "--recreate"} {
			assert.Check(t, is.Contains(res.stderr, part))
		}
		asked := w.terminal(t, w.docker("ralph", "shell", "--", "true"))
		asked.screen.WaitFor(t, "Recreate it, if it is gone?")
		asked.press(t, "n\r")
		res = asked.wait(t).expect(t, 1)
		assert.Check(t, is.Contains(res.stdout, "canceled: unknown state of sandbox "))
		for _, c := range w.calls(t)[before:] {
			assert.Check(t, !slices.ContainsFunc(c.Args, func(arg string) bool { return arg == "create" || arg == "rm" }), "%q", c.Args)
		}

		w.configureFake(t, func(s *sandboxcli.Settings) { s.Faults.EmptyList = false })
		w.createSandbox(t)
		assert.Equal(t, w.sandbox(t).ID, made.ID)
	})
}

// A removed microVM that was the only one looks the same as a lost engine: recreating
// it needs confirmation.
func TestRemovedOnlyMicroVMIsRecreatedAfterConfirmation(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.createSandbox(t)
		made := w.sandbox(t)
		w.remove(t, made)
		w.ralph(t, "shell", "--", "true").expect(t, 1)
		assert.Equal(t, len(w.sandboxes(t)), 0)

		asked := w.terminal(t, w.docker("ralph", "shell", "--", "true"))
		asked.screen.WaitFor(t, "Recreate it, if it is gone?")
		asked.press(t, "y\r")
		asked.wait(t).expect(t, 0)
		assert.Assert(t, w.sandbox(t).ID != made.ID)

		w.remove(t, w.sandbox(t))
		w.createSandbox(t, "--recreate")
		assert.Equal(t, len(w.sandboxes(t)), 1)
	})
}

// A creation that is killed during any call that changes something is completed by
// the next command.
func TestCommandAfterAKilledCreationWorks(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		other := func(n int) *world {
			o := *w
			o.env = append(slices.Clone(w.env), fmt.Sprint("RALPH_SCOPE_BRANCH=crash-", n))
			return &o
		}
		other(0).createSandbox(t)
		w.remove(t, w.sandbox(t))
		changes := func() int {
			return len(slices.DeleteFunc(w.calls(t), func(c sandboxcli.Call) bool {
				return slices.Contains(c.Args, "ls") || slices.Contains(c.Args, "version")
			}))
		}

		killed := 0
		for n := 1; ; n++ {
			o, before := other(n), changes()
			first := start(t, o.docker("ralph", "shell", "--", "true"))
			ended := false
			eventually(t, func() error {
				select {
				case <-first.done:
					ended = true
				default:
				}
				if made := changes() - before; made < n && !ended {
					return fmt.Errorf("%d calls of %d", made, n)
				}
				return nil
			})
			first.signalGroup(syscall.SIGKILL)
			if n%2 == 0 {
				for _, pid := range o.clients(t) {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
			}
			first.wait(t)

			res := o.ralph(t, "shell", "--", "true")
			assert.Equal(t, res.code, 0, "killed in call %d:\n%s", n, res.stderr)
			assert.Equal(t, len(o.sandboxes(t)), 1, "killed in call %d", n)
			o.remove(t, o.sandbox(t))
			if ended {
				break
			}
			killed++
		}
		assert.Assert(t, killed >= 3, "killed in %d calls only", killed)
	})
}

// clients are the processes of the world's microVM program, without those that create
// a sandbox: the real programs create them in a daemon, which is not killed.
func (w *world) clients(t *testing.T) []int {
	t.Helper()
	var found []int
	for _, pid := range processesWith("ralph-" + strings.ReplaceAll(w.slug, "/", "-")) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(env), sandboxcli.DirEnv+"="+w.fakeDir+"\x00") && !strings.Contains(string(argv), "\x00create\x00") {
			found = append(found, pid)
		}
	}
	return found
}

// An image that sbx does not have is loaded into it once.
func TestImageIsLoadedIntoSbxOnce(t *testing.T) {
	onMicroVM(t, config.DriverSbx, func(t *testing.T, w *world) {
		assert.NilError(t, os.RemoveAll(filepath.Join(w.fakeDir, templatesOfSbx)))
		w.createUnrelatedMicroVM(t)
		first := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Equal(t, strings.Count(first.stderr, "to sbx (once)"), 1)
		w.remove(t, w.sandbox(t))
		second := w.ralph(t, "shell", "--", "true").expect(t, 0)
		assert.Check(t, !strings.Contains(second.stderr, "to sbx (once)"), second.stderr)
	})
}

// sbx is a command of the user's with sbx.
func (w *world) sbx(args ...string) *exec.Cmd {
	cmd := w.command("sbx", args...)
	cmd.Path, cmd.Err = filepath.Join(shared.fakes, "sbx"), nil
	return cmd
}

// isAllowed reports whether the microVM program's proxy allows a request of the
// sandbox.
func (w *world) isAllowed(t *testing.T, target string) bool {
	t.Helper()
	allowed, err := sandboxcli.Request(t.Context(), w.fakeDir, w.driver, w.sandbox(t).Name, target)
	assert.NilError(t, err)
	return allowed
}

// The program's own proxy enforces the policy, and blocked hosts are reported.
func TestMicroVMNetworkPolicy(t *testing.T) {
	onMicroVMs(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_NETWORK", "allowlist")
		if w.driver == config.DriverSbx {
			// Its balanced policy allows more, and cannot be narrowed.
			res := w.ralph(t, "shell", "--", "true").expect(t, 1)
			assert.Check(t, is.Contains(res.stderr, `Error: driver sbx cannot enforce the network policy "allowlist": your own rules of sbx allow more`))
			assert.Check(t, is.Contains(res.stderr, "**.googleapis.com:443 (default-cloud)"))
			assert.Equal(t, len(w.sandboxes(t)), 0)
			w.configureFake(t, func(s *sandboxcli.Settings) { s.PolicyInitialised = false })
			run(t, w.sbx("policy", "init", "deny-all")).expect(t, 0)
		}
		w.plan(t, task{ID: "slow", Title: "Wait for go", Steps: []string{"touch begun; while ! test -e go; do sleep 0.1; done"}})
		build := start(t, w.docker("ralph", "build"))
		waitForFile(t, w.pathInside(t, "begun"))
		for target, want := range map[string]bool{"far.example:443": false, "github.com:443": true, "github.com:22": false, "go.dev:443": true} {
			assert.Check(t, is.Equal(w.isAllowed(t, target), want), target)
		}
		w.isAllowed(t, "far.example:443")
		w.write(t, w.pathInside(t, "go"), "")
		res := build.wait(t).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "blocked: far.example:443 ×2, allow with: docker ralph network allow far.example\n"))
		assert.Check(t, is.Contains(res.stderr, "blocked: github.com:22 ×1, allow with: docker ralph network allow github.com:22\n"))
		assert.Check(t, is.Contains(w.ok(t, "network", "log"), "refused  far.example:443  "))

		// It changes at once, and the sandbox is the same, which was stopped after the loop.
		w.ok(t, "shell", "--", "true")
		id := w.sandbox(t).ID
		w.ok(t, "network", "allow", "far.example")
		assert.Check(t, w.isAllowed(t, "far.example:443"))
		var list network.List
		assert.NilError(t, json.Unmarshal([]byte(w.ok(t, "network", "ls", "--format", "json")), &list))
		assert.Equal(t, list.Policy, egress.Allowlist)
		found := map[string]network.Rule{}
		for _, rule := range list.Rules {
			found[rule.Host] = rule
		}
		assert.Equal(t, found["far.example"].Origin, "docker ralph network")
		assert.Equal(t, found["github.com"].Origin, "preset git")
		w.denyAgain(t)
		assert.Check(t, !w.isAllowed(t, "far.example:443"))
		assert.Equal(t, w.sandbox(t).ID, id)

		// A sandbox keeps its policy.
		res = w.ralph(t, "--network", "deny", "build").expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "no longer matches the configuration (network policy from allowlist to deny)"))
	})
}

// denyAgain denies an allowed host. Whether docker sandbox has applied that is unknown,
// so no agent is started in such a sandbox any more.
func (w *world) denyAgain(t *testing.T) {
	t.Helper()
	if w.driver == config.DriverSbx {
		w.ok(t, "network", "deny", "far.example")
		w.ok(t, "build")
		return
	}
	const stale = "docker sandbox may still allow far.example:80"
	assert.Check(t, is.Contains(w.ralph(t, "network", "deny", "far.example").expect(t, 1).stderr, stale))
	w.plan(t, task{ID: "next", Title: "Never begun"})
	assert.Check(t, is.Contains(w.ralph(t, "build").expect(t, 1).stderr, stale))
	assert.Equal(t, w.statuses(t)["next"], "open")
}
