//go:build unix

package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// Commands at a pseudo-terminal.

// terminal is a command at its own terminal.
type terminal struct {
	process
	keys   io.Writer
	screen output.Buffer
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
	master = makeClosable(t, master)
	tm := &terminal{process: process{cmd: cmd, done: make(chan struct{})}, keys: master, read: make(chan struct{})}
	tm.size = func(rows, columns uint16) error {
		return pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: columns})
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	assert.NilError(t, cmd.Start())
	assert.NilError(t, slave.Close())
	go func() {
		defer close(tm.read)
		_, _ = io.Copy(&tm.screen, master) // ends with an error when the last process has ended
	}()
	tm.hangUp = sync.OnceFunc(func() { assert.Check(t, master.Close()) })
	t.Cleanup(func() {
		tm.hangUp()
		<-tm.read
	})
	tm.reap(t)
	return tm
}

// makeClosable returns the same terminal as a file that can be closed while it is read.
func makeClosable(t *testing.T, master *os.File) *os.File {
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

// assertTerminalRestored asserts that the terminal is as it was before.
func (w *world) assertTerminalRestored(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(w.dir, "before"))
	assert.NilError(t, err)
	after, err := os.ReadFile(filepath.Join(w.dir, "after"))
	assert.NilError(t, err)
	assert.Equal(t, string(after), string(before))
}
