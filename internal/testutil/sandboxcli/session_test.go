package sandboxcli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/sandboxclitest"
)

// start starts a call and waits for a file of its command.
func (r fixture) start(t *testing.T, ready string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := r.command(t, args...)
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, func() bool { return exists(filepath.Join(r.ws, ready)) })
	return cmd
}

// longIdle is an idle timeout that is not reached on a busy machine either. The background process looks at its settings every half second then.
const longIdle = 10 * time.Second

// chatter is a command that makes a file "ready", writes to its output until a
// file "go" is there, and makes a file "done".
const chatter = "touch ready; while ! test -e go; do echo out; echo err >&2; sleep 0.02; done; touch done"

func TestCommandOutlivesItsClient(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
			for _, name := range []string{"ready", "go", "done"} {
				_ = os.Remove(filepath.Join(r.ws, name))
			}
			cmd := r.command(t, "exec", "box", "sh", "-c", chatter)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			assert.NilError(t, cmd.Start())
			eventually(t, func() bool { return exists(filepath.Join(r.ws, "ready")) })
			assert.NilError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait() // returns although the command in the sandbox runs until "go"
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			assert.Assert(t, ok)
			assert.Equal(t, status.Signal(), sig)
			assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
			eventually(t, func() bool { return exists(filepath.Join(r.ws, "done")) })
		}
	})
}

func TestIdleStop(t *testing.T) {
	t.Parallel()
	idle := func(t *testing.T, r fixture, d time.Duration) {
		r.Set(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(d) })
	}
	test := func(t *testing.T, r fixture) {
		idle(t, r, longIdle)
		r.create(t, "unused")
		r.create(t, "box")
		client := r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
		idle(t, r, time.Second)
		r.waitForStatus(t, "unused", "stopped")
		if r.plugin { // no terminal: it does not count
			r.waitForStatus(t, "box", "stopped")
			return
		}
		<-time.After(1200 * time.Millisecond) // it has to last, not to come
		assert.Equal(t, r.status(t, "box"), "running", "a session keeps it")
		assert.NilError(t, client.Process.Kill())
		_ = client.Wait()
		r.waitForStatus(t, "box", "stopped")
		idle(t, r, longIdle)
		r.ok(t, "exec", "box", "true")
		assert.Equal(t, r.status(t, "box"), "running")
		r.ok(t, "stop", "box")
		r.ok(t, "run", "--detached", "--name", "box")
		idle(t, r, time.Second)
		<-time.After(1200 * time.Millisecond) // as above
		assert.Equal(t, r.status(t, "box"), "running", "it is pinned")
		r.ok(t, "stop", "box")
		r.ok(t, "exec", "box", "true")
		r.waitForStatus(t, "box", "stopped")
	}
	onEngines(t, test)
}

func TestDetachedExecOfThePlugin(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		if !r.plugin {
			t.Skip("sbx refuses it")
		}
		r.create(t, "box")
		r.ok(t, "exec", "-d", "box", "sh", "-c", "while ! test -e go; do sleep 0.02; done; touch done")
		assert.Assert(t, !exists(filepath.Join(r.ws, "done")))
		assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
		eventually(t, func() bool { return exists(filepath.Join(r.ws, "done")) })
	})
}

func TestRemoveInUse(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.create(t, "box")
	r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
	res := r.run(t, "y\n", "rm", "box")
	assert.Equal(t, res.code, 1)
	assert.Assert(t, strings.Contains(res.err, "in use"), "%s", res.err)
	r.ok(t, "rm", "-f", "box")
	assert.Equal(t, len(r.list(t)), 0)
}

// screen is a user's terminal with a client on it.
type screen struct {
	terminal *os.File
	cmd      *exec.Cmd
	output.Buffer
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	assert.NilError(t, err)
	s := &screen{terminal: f, cmd: cmd}
	go func() { _, _ = io.Copy(s, f) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = f.Close()
	})
	return s
}

func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	_, err := s.terminal.WriteString(keys)
	assert.NilError(t, err)
}

const dialogue = `test -t 0 && test -t 1 && echo terminal
trap 'echo interrupted; exit 9' INT
while :; do echo "size $(stty size)"; read x; done`

func TestTerminal(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		s := onTerminal(t, r.command(t, "exec", "-it", "box", "sh", "-c", dialogue))
		s.WaitFor(t, "terminal")
		s.WaitFor(t, "size ")
		eventually(t, func() bool {
			s.press(t, "\r")
			return s.Contains("size 24 80")
		})
		assert.NilError(t, pty.Setsize(s.terminal, &pty.Winsize{Rows: 50, Cols: 132}))
		eventually(t, func() bool {
			s.press(t, "\r")
			return s.Contains("size 50 132")
		})
		s.press(t, "\x03")
		s.WaitFor(t, "interrupted")
		_ = s.cmd.Wait()
		assert.Equal(t, s.cmd.ProcessState.ExitCode(), 9)
	})
}

func TestDetachKeys(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		for keys, flags := range map[string][]string{"\x10\x11": nil, "\x1c": {"--detach-keys", `ctrl-\`}} {
			for _, name := range []string{"ready", "go", "done"} {
				_ = os.Remove(filepath.Join(r.ws, name))
			}
			args := append(append([]string{"exec", "-it"}, flags...), "box", "sh", "-c", chatter)
			s := onTerminal(t, r.command(t, args...))
			s.WaitFor(t, "out") // the terminal passes everything on by then
			for _, key := range []byte(keys) {
				s.press(t, string(key))
			}
			_ = s.cmd.Wait()
			assert.Equal(t, s.cmd.ProcessState.ExitCode(), 1)
			s.WaitFor(t, "read escape sequence")
			assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
			eventually(t, func() bool { return exists(filepath.Join(r.ws, "done")) })
		}
	})
}

func TestInteractiveSessionPreventsIdleStop(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *sandboxcli.Settings) { s.Idle = sandboxcli.Duration(time.Second) })
	r.plugin = true
	r.create(t, "box")
	s := onTerminal(t, r.command(t, "exec", "-it", "box", "cat"))
	s.press(t, "there\r")
	s.WaitFor(t, "there\r\nthere\r\n")    // the terminal's echo, and cat
	<-time.After(1500 * time.Millisecond) // it has to last, not to come
	assert.Equal(t, r.status(t, "box"), "running")
	assert.NilError(t, s.cmd.Process.Kill())
	r.waitForStatus(t, "box", "stopped")
}

func TestTerminalIsRequired(t *testing.T) {
	t.Parallel()
	bothCLIs(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		res := r.run(t, "", "exec", "-it", "box", "true")
		assert.Equal(t, res.code, 1)
		assert.Assert(t, strings.Contains(res.err, "the input device is not a TTY"), "%s", res.err)
		assert.Equal(t, r.ok(t, "exec", "-t", "box", "sh", "-c", "test -t 1 && echo terminal"), "terminal\r\n")
	})
}

// A process that a command leaves in the background with its output open does not
// block exec.
func TestInheritedOutputDoesNotBlockExec(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.create(t, "box")
	assert.Equal(t, r.ok(t, "exec", "box", "sh", "-c", "sleep 100000 & echo x"), "x\n")
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		r := newFixture(t, inContainers(e))
		r.create(t, "box")
		assert.Equal(t, r.ok(t, "exec", "box", "sh", "-c", "sleep 1000 & echo x"), "x\n")
	})
}

func TestTerminalCommandOutlivesItsClient(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			for _, name := range []string{"ready", "go", "done"} {
				_ = os.Remove(filepath.Join(r.ws, name))
			}
			s := onTerminal(t, r.command(t, "exec", "-it", "box", "sh", "-c", chatter))
			eventually(t, func() bool { return exists(filepath.Join(r.ws, "ready")) })
			assert.NilError(t, s.cmd.Process.Signal(sig))
			_ = s.cmd.Wait()
			<-time.After(100 * time.Millisecond) // the output has no reader any more
			assert.NilError(t, os.WriteFile(filepath.Join(r.ws, "go"), nil, 0o644))
			eventually(t, func() bool { return exists(filepath.Join(r.ws, "done")) })
		}
	})
}

func TestStopEndsExec(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, r fixture) {
		r.create(t, "box")
		cmd := r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
		r.ok(t, "stop", "box")
		_ = cmd.Wait()
		assert.Equal(t, cmd.ProcessState.ExitCode(), 137)
		assert.Equal(t, r.status(t, "box"), "stopped")
	})
}

// The processes of a killed test end when its directory is removed.
func TestContainersAreRemovedWithTheStateDirectory(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.create(t, "box")
	sleep := fmt.Sprintf("sleep 1000.%d", time.Now().UnixNano())
	r.ok(t, "exec", "box", "sh", "-c", sleep+" >/dev/null 2>&1 & sleep 0.1")
	eventually(t, func() bool { return runs(t, sleep) == 1 })
	aside := r.Dir + ".aside"
	assert.NilError(t, os.Rename(r.Dir, aside))
	eventually(t, func() bool { return runs(t, sleep) == 0 })
	assert.NilError(t, os.Rename(aside, r.Dir))
	r.ok(t, "exec", "box", "true")

	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		r := newFixture(t, inContainers(e))
		r.create(t, "box")
		r.create(t, "unused")
		r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
		r.Set(t, func(s *settings) { s.Idle = sandboxcli.Duration(time.Second) })
		r.waitForStatus(t, "unused", "stopped") // now the background process is at work
		api := e.Client(t)
		count := func() int {
			found, err := api.ContainerList(t.Context(), client.ContainerListOptions{
				All: true, Filters: make(client.Filters).Add("label", sandboxcli.Label+"="+r.Dir),
			})
			assert.NilError(t, err)
			return len(found.Items)
		}
		assert.Equal(t, count(), 2)
		assert.NilError(t, os.Rename(r.Dir, r.Dir+".aside"))
		eventually(t, func() bool { return count() == 0 })
		assert.NilError(t, os.Rename(r.Dir+".aside", r.Dir))
	})
}

func BenchmarkExec(b *testing.B) {
	d := sandboxclitest.New(b, nil)
	out, err := d.Sbx(b.Context(), "create", "--name", "box", "shell", d.Shared).CombinedOutput()
	assert.NilError(b, err, "%s", out)
	for b.Loop() {
		assert.NilError(b, d.Sbx(b.Context(), "exec", "box", "true").Run())
	}
}

func BenchmarkList(b *testing.B) {
	d := sandboxclitest.New(b, nil)
	for b.Loop() {
		assert.NilError(b, d.Sbx(b.Context(), "ls", "--json").Run())
	}
}

// The background process ends soon after the last sandbox, but not before a client has the
// exit code of its command.
func TestStopReportsTheExitCodeOfExec(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.Idle = sandboxcli.Duration(100 * time.Millisecond) }) // looks every 5 ms
	r.create(t, "box")
	for range 10 {
		_ = os.Remove(filepath.Join(r.ws, "ready"))
		cmd := r.start(t, "ready", "exec", "box", "sh", "-c", "touch ready; sleep 1000")
		r.ok(t, "stop", "box")
		_ = cmd.Wait()
		assert.Equal(t, cmd.ProcessState.ExitCode(), 137)
	}
}
