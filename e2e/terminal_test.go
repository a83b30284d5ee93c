//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// terminal is a command at a terminal of its own.
type terminal struct {
	process
	keys   io.Writer
	screen buffer
	typed  int           // how much was drawn when a line was typed last
	read   chan struct{} // closed when the screen will not change any more
	size   func(rows, columns uint16) error
	hangUp func() // closes the terminal's window
}

// terminal starts a command at a terminal of 24 rows and 80 columns.
func (w *world) terminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	attrs := cmd.SysProcAttr
	attrs.Setpgid, attrs.Setsid, attrs.Setctty = false, true, true
	cmd.Env = append(cmd.Env, "TERM=xterm")
	master, slave, err := pty.Open()
	assert.NilError(t, err)
	assert.NilError(t, slave.Chown(w.uid, w.gid))
	assert.NilError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	master = closable(t, master)
	tm := &terminal{process: process{cmd: cmd, done: make(chan struct{})}, keys: master, read: make(chan struct{})}
	tm.size = func(rows, columns uint16) error {
		return pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: columns})
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	assert.NilError(t, cmd.Start())
	assert.NilError(t, slave.Close())
	go func() {
		defer close(tm.read)
		_, _ = io.Copy(&tm.screen, master) // ends with an error when the last process is gone
	}()
	tm.hangUp = sync.OnceFunc(func() { assert.Check(t, master.Close()) })
	t.Cleanup(func() {
		tm.hangUp()
		<-tm.read
	})
	tm.follow(t)
	return tm
}

// closable makes of a terminal one that can be closed while it is read.
func closable(t *testing.T, master *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(master.Fd()))
	assert.NilError(t, err)
	syscall.CloseOnExec(fd)
	assert.NilError(t, master.Close())
	assert.NilError(t, syscall.SetNonblock(fd, true))
	return os.NewFile(uintptr(fd), "terminal")
}

// press types keys.
func (tm *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(tm.keys, keys)
	assert.NilError(t, err)
}

// wait waits for the end of the command.
func (tm *terminal) wait(t *testing.T) result {
	t.Helper()
	res := tm.process.wait(t)
	<-tm.read
	res.stdout = tm.screen.String()
	return res
}

// shell runs "docker ralph" with these arguments in a shell at a terminal.
// The shell ends with the same exit code.
func (w *world) shell(t *testing.T, args string) *terminal {
	t.Helper()
	return w.terminal(t, w.command("sh", "-c",
		"stty -g >"+w.dir+"/before; docker ralph "+args+"; code=$?; stty -g >"+w.dir+"/after; exit $code"))
}

// restored asserts that the terminal is as it was before.
func (w *world) restored(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(w.dir, "before"))
	assert.NilError(t, err)
	after, err := os.ReadFile(filepath.Join(w.dir, "after"))
	assert.NilError(t, err)
	assert.Equal(t, string(after), string(before))
}

func TestTheProgramInsideKnowsTheTerminalsSize(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := w.shell(t, "build")
		appears(t, filepath.Join(w.repo, "begun"))
		for _, size := range [][2]uint16{{24, 80}, {50, 132}, {10, 40}} {
			assert.NilError(t, build.size(size[0], size[1]))
			eventually(t, func() error {
				if got, want := w.sizeInside(t), fmt.Sprintf("%d %d\n", size[0], size[1]); got != want {
					return fmt.Errorf("%q is not %q", got, want)
				}
				return nil
			})
		}
		w.write(t, filepath.Join(w.repo, "go"), "")
		w.shows(t, build.wait(t).expect(t, 0).stdout, "build")
		w.restored(t)
	})
}

// sizeInside returns the size of the terminal that ralph has as its input in
// the sandbox. What keeps a microVM alive can have one too.
func (w *world) sizeInside(t *testing.T) string {
	t.Helper()
	return run(t, w.docker("exec", "--user", fmt.Sprintf("%d:%d", w.uid, w.gid), w.sandbox(t).ID, "sh", "-c",
		`for f in /proc/[0-9]*/fd/0; do grep -q _hold ${f%/fd/0}/cmdline && continue; t=$(readlink $f) || continue; case $t in /dev/pts/*) stty -F $t size; exit;; esac; done`)).expect(t, 0).stdout
}

// slowTask waits for the file "go", and notes the signals that come
// meanwhile. Once the file is there it is quick.
func slowTask() task {
	return task{ID: "slow", Title: "Wait for go", Steps: []string{
		"test -e go && exit; trap 'echo INT >>signals' INT; trap 'echo TERM >>signals' TERM; touch begun; while ! test -e go; do sleep 0.05; done",
	}}
}

const cleanupMessage = "Waiting for shell to finish cleanup... Press Ctrl+C again to force quit."

func TestCtrlCLetsTheAgentFinishAndTheSandboxLivesOn(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := w.shell(t, "build")
		appears(t, filepath.Join(w.repo, "begun"))
		build.press(t, "\x03")
		build.screen.waitFor(t, cleanupMessage)
		appears(t, filepath.Join(w.repo, "signals"))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 130)

		assert.Equal(t, w.read(t, "signals"), "INT\n")
		w.restored(t)
		w.goesOn(t)
	})
}

func TestCtrlCTwiceEndsTheAgentAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		build := w.shell(t, "build")
		appears(t, filepath.Join(w.repo, "begun"))
		build.press(t, "\x03")
		build.screen.waitFor(t, cleanupMessage)
		build.press(t, "\x03")
		build.wait(t).expect(t, 130)

		w.restored(t)
		w.atRest(t)
		w.write(t, filepath.Join(w.repo, "go"), "")
		w.goesOn(t)
	})
}

// With the output elsewhere docker does not take the keyboard: the terminal
// signals all processes at once, and docker tells the plugin besides.
func TestCtrlCWithTheOutputElsewhereArrivesOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, slowTask())
		output := filepath.Join(w.dir, "output")
		build := w.terminal(t, w.command("sh", "-c", "trap : INT; docker ralph build >"+output+" 2>&1; exit $?"))
		appears(t, filepath.Join(w.repo, "begun"))
		build.press(t, "\x03")
		appears(t, filepath.Join(w.repo, "signals"))
		w.write(t, filepath.Join(w.repo, "go"), "")
		build.wait(t).expect(t, 130)

		assert.Equal(t, w.read(t, "signals"), "INT\n")
		assert.Equal(t, strings.Count(w.read(t, "../../output"), cleanupMessage), 1)
		w.goesOn(t)
	})
}

// goesOn asserts that an interrupted build has left the sandbox running and
// the task open, and that the next build does it.
func (w *world) goesOn(t *testing.T) {
	t.Helper()
	sandbox := w.sandbox(t)
	assert.Assert(t, sandbox.Running)
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "open"})
	w.ok(t, "build")
	assert.DeepEqual(t, w.statuses(t), map[string]string{"slow": "done"})
	assert.Equal(t, w.sandbox(t).ID, sandbox.ID)
}

// atRest waits until nothing but its first process runs in the sandbox; that
// of a microVM's container has a child.
func (w *world) atRest(t *testing.T) {
	t.Helper()
	id, lines := w.sandbox(t).ID, 2
	if w.micro() {
		lines++
	}
	eventually(t, func() error {
		if top := run(t, w.docker("top", id, "-eo", "pid,args")).stdout; strings.Count(top, "\n") > lines {
			return errors.New("processes are left:\n" + top)
		}
		return nil
	})
}

func TestDetachKeysLeaveTheLoopRunning(t *testing.T) {
	for _, tc := range []struct{ name, config, keys string }{
		{"default", "{}", "\x10\x11"},
		{"from Docker's configuration", `{"detachKeys": "ctrl-x,q"}`, "\x18q"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.write(t, filepath.Join(w.config, "config.json"), tc.config)
				// Output that is on its way must not be in the way of leaving.
				w.plan(t, task{ID: "loud", Title: "Talk", Steps: []string{
					"touch begun; while ! test -e go; do echo $((n=n+1)) is a number; done; sleep 1",
				}})
				build := w.shell(t, "build")
				appears(t, filepath.Join(w.repo, "begun"))
				build.screen.waitFor(t, "100 is a number")
				build.press(t, tc.keys)
				res := build.wait(t).expect(t, 0)
				w.restored(t)
				assert.Check(t, is.Contains(res.stdout, "Detached: ralph build goes on in the sandbox"))

				assert.DeepEqual(t, w.statuses(t), map[string]string{"loud": "active"})
				w.write(t, filepath.Join(w.repo, "go"), "")
				eventually(t, func() error {
					if got := w.statuses(t)["loud"]; got != "done" {
						return errors.New(got)
					}
					return nil
				})
			})
		})
	}
}
