//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// Without a terminal a signal comes to docker alone ("kill"), or to docker
// and the plugin ("timeout", Ctrl+C in a pipeline). Docker does not pass it on
// but says that it is over, so a lone SIGTERM counts as an interrupt.
func TestASignalReachesTheProgramInsideOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		group  bool
	}{
		{"SIGINT to docker", syscall.SIGINT, false},
		{"SIGTERM to docker", syscall.SIGTERM, false},
		{"SIGINT to the group", syscall.SIGINT, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !tc.group && shared.client < tellsPlugins {
				t.Skipf("docker %d keeps a signal that comes to it alone to itself", shared.client)
			}
			everywhere(t, func(t *testing.T, w *world) {
				w.plan(t, slowTask())
				build := start(t, w.docker("ralph", "build"))
				appears(t, filepath.Join(w.repo, "begun"))
				if tc.group {
					build.signalGroup(tc.signal)
				} else {
					build.signal(t, tc.signal)
				}
				appears(t, filepath.Join(w.repo, "signals"))
				build.stdout.waitFor(t, cleanupMessage)
				w.write(t, filepath.Join(w.repo, "go"), "")
				res := build.wait(t).expect(t, 130)

				assert.Equal(t, w.read(t, "signals"), "INT\n")
				assert.Equal(t, strings.Count(res.stdout, cleanupMessage), 1)
				assert.Check(t, is.Contains(res.stdout, `To let a run finish its task instead, use "docker ralph stop".`))
				assert.Equal(t, res.stderr, "")
				w.goesOn(t)
			})
		})
	}
}

func TestSignalsThatEndTheAgentAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		signals []syscall.Signal
	}{
		{"SIGTERM to the group", []syscall.Signal{syscall.SIGTERM}},
		{"SIGINT twice to the group", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.plan(t, slowTask())
				build := start(t, w.docker("ralph", "build"))
				appears(t, filepath.Join(w.repo, "begun"))
				for i, sig := range tc.signals {
					if i > 0 {
						build.stdout.waitFor(t, cleanupMessage)
						appears(t, filepath.Join(w.repo, "signals"))
					}
					build.signalGroup(sig)
				}
				build.wait(t).expect(t, 130)

				w.atRest(t)
				w.write(t, filepath.Join(w.repo, "go"), "")
				w.goesOn(t)
			})
		})
	}
}

func TestASignalDuringCreationLeavesNothingInTheWay(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.neighbour(t)
				w.plan(t, slowTask())
				w.removeSandboxes(t)
				build := start(t, w.docker("ralph", "build"))
				build.stderr.waitFor(t, "Creating the sandbox")
				build.signalGroup(sig)
				res := build.wait(t)
				if sig != syscall.SIGKILL {
					res.expect(t, 130)
				}

				w.write(t, filepath.Join(w.repo, "go"), "")
				w.ok(t, "build")
				assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
				assert.Equal(t, len(w.sandboxes(t)), 1)
			})
		})
	}
}

func TestASignalDuringAnImageBuildLeavesNothingInTheWay(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				base := w.slowBase(t)
				args := []string{"ralph", "--progress", "plain", "--base", base, "task", "create", "a", "Title"}
				cmd := start(t, w.docker(args...))
				cmd.stderr.waitFor(t, "RUN : ")
				cmd.signalGroup(sig)
				res := cmd.wait(t)
				assert.Equal(t, len(w.sandboxes(t)), 0)
				if sig != syscall.SIGKILL {
					res.expect(t, 130)
				}

				again := start(t, w.docker(args...))
				again.stderr.waitFor(t, "Creating the sandbox") // the image has a minute of its own
				assert.Equal(t, again.wait(t).expect(t, 0).stdout, "a\n")
				assert.Equal(t, len(w.sandboxes(t)), 1)
			})
		})
	}
}

// slowBase makes a base image that takes its time when built on. Its name in
// the command keeps BuildKit from having done that before.
func (w *world) slowBase(t *testing.T) string {
	t.Helper()
	base := "ralph-e2e-" + filepath.Base(w.slug) + ":slow"
	id := strings.TrimSpace(run(t, w.docker("create", engines.BaseImage(), "true")).expect(t, 0).stdout)
	run(t, w.docker("commit", "--change", "ONBUILD RUN : "+base+"; sleep 2", id, base)).expect(t, 0)
	run(t, w.docker("rm", id)).expect(t, 0)
	t.Cleanup(func() {
		w.removeSandboxes(t)
		built := run(t, w.docker("images", "-q", "--filter", "label="+labelPrefix+"base="+base)).stdout
		run(t, w.docker(append([]string{"rmi", "-f", base}, strings.Fields(built)...)...))
	})
	return base
}

// Whoever kills docker and the plugin does not kill the loop: it is not
// disturbed by what comes next, and its work counts.
func TestAKilledPluginDoesNotDisturbTheLoop(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := start(t, w.docker("ralph", "build"))
		appears(t, filepath.Join(w.repo, "begun"))
		id := w.sandbox(t).ID
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)

		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "active"})
		assert.Equal(t, w.sandbox(t).ID, id)
		w.write(t, filepath.Join(w.repo, "go"), "")
		w.atRest(t)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
		_, err := os.Stat(filepath.Join(w.repo, "signals"))
		assert.Assert(t, os.IsNotExist(err))
		assert.Check(t, is.Contains(w.ok(t, "build"), "All tasks complete"))
	})
}
