//go:build unix

package microvm_test

import (
	"bytes"
	"context"
	"crypto/rand"
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
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// execEnv makes the test binary run a lasting script in a sandbox, so that it can be killed.
// Its value has a line each for the driver, the state directory, the sandbox, the ID of the process and the script.
const execEnv = "MICROVM_TEST_EXEC"

func runAsClient(ctx context.Context, job string) int {
	partition := strings.SplitN(job, "\n", 5)
	d := newDriver(partition[0], partition[1])
	sb, err := d.Lookup(ctx, partition[2])
	if err == nil {
		_, err = d.Exec(ctx, sb, lifecycle.Process{
			ID: partition[3], Lasting: partition[3] == "lasting", Args: []string{"sh", "-c", partition[4]}, Dir: sb.Root, Stdout: os.Stdout, Stderr: os.Stderr,
		})
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startClient starts a client process that runs the script.
func (b *fixture) startClient(t *testing.T, sb lifecycle.Sandbox, id, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), execEnv+"="+strings.Join([]string{b.kind, b.state, sb.Name, id, script}, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	assert.NilError(t, cmd.Start())
	return cmd
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	poll.WaitOn(t, poll.FileExists(path), poll.WithTimeout(3*time.Minute))
}

// Without its client, a lasting process of sbx runs to its end, although the sandbox would be stopped as idle. Then
// the sandbox can be stopped.
func TestLastingProcessOutlivesClient(t *testing.T) {
	onEngine(t, func(t *testing.T, b *fixture) {
		if b.kind != microvm.Sbx { // see TestSandboxWithoutClientStops
			return
		}
		sb, spec := b.create(t)
		client := b.startClient(t, sb, "lasting", "touch begun; until [ -e seen ]; do sleep 0.1; done; sleep 5; touch ended")
		waitForFile(t, filepath.Join(spec.Root, "begun"))
		b.idle(t, time.Second)
		b.killClient(t, client, sb)

		running, err := b.driver.Dispatches(t.Context(), sb)
		assert.NilError(t, err)
		assert.Equal(t, len(running), 1)
		assert.Equal(t, running[0].ID, "lasting")
		assert.Assert(t, is.Contains(strings.Join(running[0].Command, " "), "sleep 5"))
		assert.NilError(t, b.driver.Unpin(t.Context(), sb)) // it is not idle
		assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, "seen"), nil, 0o644))

		waitForFile(t, filepath.Join(spec.Root, "ended"))
		poll.WaitOn(t, func(poll.LogT) poll.Result { // it is busy until the process has ended
			err := b.driver.Unpin(t.Context(), sb)
			found, lookErr := b.driver.Lookup(t.Context(), sb.Name)
			switch {
			case errors.Join(err, lookErr) != nil:
				return poll.Error(errors.Join(err, lookErr))
			case found.State != lifecycle.Stopped:
				return poll.Continue("it is %s", found.State)
			}
			return poll.Success()
		}, poll.WithTimeout(3*time.Minute))
	})
}

// Without its client, nothing keeps the sandbox of another process running.
func TestSandboxWithoutClientStops(t *testing.T) {
	onEngine(t, func(t *testing.T, b *fixture) {
		sb, spec := b.create(t)
		client := b.startClient(t, sb, "other", "touch begun; sleep 60; touch ended")
		waitForFile(t, filepath.Join(spec.Root, "begun"))
		b.killClient(t, client, sb)
		b.idle(t, time.Second) // not before: the client's session need not count as use
		b.stops(t, sb)
	})
}

// While a process runs without a terminal, which docker sandbox does not count as use, the sandbox does not stop.
func TestSandboxWithClientDoesNotStop(t *testing.T) {
	onEngine(t, func(t *testing.T, b *fixture) {
		t.Setenv(heartbeatEnv, "500ms")
		sb, spec := b.create(t)
		client := b.startClient(t, sb, "other", "touch begun; until [ -e seen ]; do sleep 0.1; done; sleep 20; touch ended")
		waitForFile(t, filepath.Join(spec.Root, "begun"))
		b.idle(t, 15*time.Second) // much longer than a busy machine takes to open the next session
		assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, "seen"), nil, 0o644))
		assert.NilError(t, client.Wait())
		waitForFile(t, filepath.Join(spec.Root, "ended"))
		b.stops(t, sb)
	})
}

func TestStartedSandboxStopsWhenIdle(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		sb, _ := b.create(t)
		assert.NilError(t, b.driver.Stop(t.Context(), sb))
		assert.NilError(t, b.driver.Start(t.Context(), sb))
		found, err := b.driver.Lookup(t.Context(), sb.Name)
		assert.NilError(t, err)
		assert.Equal(t, found.State, lifecycle.Running)
		b.idle(t, time.Second)
		b.stops(t, sb)
	})
}

// onEngine runs a test for both programs with an idle timeout that is long enough to set up a
// sandbox on a busy machine, until [fixture.idle] sets another one.
func onEngine(t *testing.T, test func(t *testing.T, b *fixture)) {
	t.Helper()
	inContainers(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(2 * time.Minute) }, test)
}

// idle sets the idle timeout.
func (b *fixture) idle(t *testing.T, d time.Duration) {
	t.Helper()
	b.fake.Set(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(d) })
}

// stops waits until a sandbox is stopped.
func (b *fixture) stops(t *testing.T, sb lifecycle.Sandbox) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		found, err := b.driver.Lookup(t.Context(), sb.Name)
		if err != nil {
			return poll.Error(err)
		}
		if found.State != lifecycle.Stopped {
			return poll.Continue("it is %s", found.State)
		}
		return poll.Success()
	}, poll.WithTimeout(3*time.Minute))
}

// killClient kills a client and the program that it runs.
func (b *fixture) killClient(t *testing.T, client *exec.Cmd, sb lifecycle.Sandbox) {
	t.Helper()
	assert.NilError(t, client.Process.Kill())
	_ = client.Wait()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	assert.NilError(t, err)
	for _, f := range files {
		line, _ := os.ReadFile(f)
		args := strings.Split(string(line), "\x00")
		if !slices.Contains(args, sb.Name) || !slices.Contains(args, "_dispatch") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		assert.NilError(t, err)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended at its closed pipe
	}
}

// The program's exit code 1 is not the command's.
func TestSandboxEndsDuringCommand(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	for _, tc := range []struct {
		verb, err string
	}{
		{"stop", "was stopped while sh ran in it"},
		{"remove", "was removed while the command was running"},
	} {
		t.Run(tc.verb, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, kind string) {
				b := newFixture(t, kind, nil)
				b.create(t) // another one, so that the list is not empty
				sb, spec := b.create(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					waitForFile(t, filepath.Join(spec.Root, "begun"))
					args := append(strings.Fields(strings.TrimSuffix(b.driver.ListCommand(), "ls")), "stop", sb.Name)
					if tc.verb == "remove" {
						args = b.driver.RemoveCommand(sb.Name)
					}
					cmd := b.fake.Sbx(t.Context(), args[1:]...)
					if kind == microvm.DockerSandbox {
						cmd = b.fake.Plugin(t.Context(), args[2:]...)
					}
					out, err := cmd.CombinedOutput()
					assert.Check(t, err, string(out))
				}()
				_, _, err := b.exec(t, sb, "touch begun; sleep 60")
				<-done
				assert.ErrorContains(t, err, tc.err)
			})
		})
	}
}

// TestNoSecretIsInAnArgv reads the command lines of all processes while a command with a
// secret runs.
func TestNoSecretIsInAnArgv(t *testing.T) {
	if inSubprocess(t) {
		return
	}
	forEachDriver(t, func(t *testing.T, kind string) {
		b := newFixture(t, kind, nil)
		sb, spec := b.create(t)
		const secret = "s3cr3t-0f-the-user"
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() {
			_, err := b.driver.Exec(t.Context(), sb, lifecycle.Process{
				ID: rand.Text(), Args: []string{"sh", "-c", `printf %s "$TOKEN" | rev; touch begun; while ! test -e go; do sleep 0.05; done`},
				Dir: spec.Root, Env: []string{"TOKEN=" + secret}, Stdout: &out, Stderr: &out,
			})
			done <- err
		}()
		waitForFile(t, filepath.Join(spec.Root, "begun"))
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		assert.NilError(t, err)
		looked := 0
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err == nil && len(content) > 0 {
				looked++
				assert.Check(t, !bytes.Contains(content, []byte(secret)), "%s: %q", f, content)
			}
		}
		assert.Assert(t, looked > 3)
		assert.NilError(t, filepath.WalkDir(b.state, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			assert.Check(t, !bytes.Contains(content, []byte(secret)), path)
			return err
		}))
		assert.NilError(t, os.WriteFile(filepath.Join(spec.Root, "go"), nil, 0o644))
		assert.NilError(t, <-done)
		assert.Equal(t, out.String(), reverse(secret))
	})
}

func reverse(s string) string {
	b := []byte(s)
	for i := range len(b) / 2 {
		b[i], b[len(b)-1-i] = b[len(b)-1-i], b[i]
	}
	return string(b)
}
