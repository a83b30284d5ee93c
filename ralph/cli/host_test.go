package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// testHost answers the requests of a sandbox, which is the directory of a test.
type testHost struct {
	store  *backlog.Store
	server *http.Server
	door   atomic.Pointer[session.Door]
	logs   string
	opts   session.DoorOptions
	env    map[string]string // of commands in the sandbox
}

// startHost serves the backlog in a database to a command.
func startHost(ctx context.Context, database, home, command, branch string) (*testHost, error) {
	store, err := backlog.OpenHost(ctx, database, backlog.Scope{Repo: "acme/shop", Branch: branch})
	if err != nil {
		return nil, err
	}
	id, token := rand.Text(), rand.Text()
	folder := filepath.Join(home, ".ralph-session")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(folder, id+".sock"))
	if err != nil {
		return nil, err
	}
	h := &testHost{store: store, logs: filepath.Join(filepath.Dir(database), "logs"), env: map[string]string{wire.SessionEnv: id, wire.SessionTokenEnv: token}}
	h.opts = session.DoorOptions{
		Store: store, Session: id, Command: command, Token: token, Alive: func(context.Context, string) bool { return true },
		Logs: h.logs,
	}
	h.open()
	h.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.door.Load().ServeHTTP(w, r)
	})}
	go func() { _ = h.server.Serve(listener) }() // until it is closed
	return h, nil
}

// open makes the door of a process in the sandbox.
func (h *testHost) open() { h.door.Store(session.NewDoor(h.opts)) }

func (h *testHost) close() {
	_ = h.server.Close()
	_ = h.store.Close()
}

// inSandbox makes the commands of a place run in a sandbox, with a session for plan or build.
func (p place) inSandbox(t *testing.T, command string) place {
	t.Helper()
	p, _ = p.withHost(t, command)
	return p
}

// withHost is as inSandbox, and returns the host.
func (p place) withHost(t *testing.T, command string) (inside place, h *testHost) {
	t.Helper()
	h, err := startHost(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), filepath.Join(p.dir, ".home"), command, "main")
	assert.NilError(t, err)
	t.Cleanup(h.close)
	p.env = append(p.env, config.GuestEnv+`={"agent":"claude","permissions":"bypass","sandboxed":true}`)
	for name, value := range h.env {
		p.env = append(p.env, name+"="+value)
	}
	return p, h
}

// A loop and its agent work on the backlog of the host. A hook of the agent leaves the task to the loop.
func TestLoopInASandbox(t *testing.T) {
	p, h := newPlace(t, "#!/bin/sh\n"+`test -z "$RALPH_SESSION_TOKEN" || exit 9
id=$(ralph task claim | sed -n 's/^id: //p')
ralph _hook session_end
case $id in
a/01) ralph task done "$id" ;;
*) ralph task delete a/01; exit 3 ;;
esac
`).withHost(t, "build")
	assert.NilError(t, os.RemoveAll(filepath.Join(p.dir, ".ralph")))
	p.task(t, "create", "a/01", "First")
	p.task(t, "create", "a/02", "Second")

	out, err := p.command(p.program(), "build", "-n", "2").CombinedOutput()
	assert.ErrorContains(t, err, "exit status 6")
	said := string(out)
	assert.Check(t, cmp.Contains(said, "Iteration 1: done a/01"))
	assert.Check(t, cmp.Contains(said, "Error: only a user may run \"task delete\"\n"))
	assert.Check(t, cmp.Contains(said, "failed a/02\n"))
	assert.Check(t, cmp.Contains(said, "Iteration 2: failed a/02"))
	assert.Check(t, cmp.Regexp(`\nderegistered [0-9a-f]{4}\n`, said))
	assert.Check(t, cmp.Contains(p.task(t, "plan-status"), "1 open, 0 active, 1 done"))
	assert.Equal(t, p.task(t, "agent", "list"), "")
	_, err = os.Stat(filepath.Join(p.dir, ".ralph"))
	assert.ErrorIs(t, err, fs.ErrNotExist, "everything is on the host")

	past := runlog.History(h.logs)
	assert.Assert(t, cmp.Len(past, 1))
	assert.Equal(t, past[0].ExitCode, 6)
	assert.Assert(t, cmp.Len(past[0].Runs, 2))
	assert.Check(t, cmp.Contains(said, "\nLog: docker ralph logs --loop "+past[0].ID+"\n"))
	output, err := os.ReadFile(filepath.Join(h.logs, past[0].ID, "2.log"))
	assert.NilError(t, err)
	assert.Check(t, cmp.Contains(string(output), "Iteration 2: failed a/02"))
	assert.Check(t, cmp.Contains(string(output), "\nError: "), "the last thing that it says")
}

// A loop that replaces a lost one continues its log.
func TestLoopContinuesTheLogOfALostOne(t *testing.T) {
	p, h := newPlace(t, "#!/bin/sh\nralph task done $(ralph task claim | sed -n 's/^id: //p')\n").withHost(t, "build")
	p.task(t, "create", "a/01", "First")
	out, err := p.command(p.program(), "build", "-n", "1", "--format", "json").Output()
	assert.NilError(t, err, string(out))
	id := runlog.Recent(h.logs, 1, runlog.Any)[0].ID
	assert.Check(t, cmp.Contains(string(out), `"log":"`+id+`"`))

	h.open()
	p.env = append(p.env, wire.LostEnv+"=the sandbox was killed")
	out, err = p.command(p.program(), "build", "-n", "1").CombinedOutput()
	assert.ErrorContains(t, err, "exit status")
	assert.Check(t, cmp.Contains(string(out), "Error: the last run did not finish: the sandbox was killed"))
	past := runlog.History(h.logs)
	assert.Assert(t, cmp.Len(past, 1))
	assert.Equal(t, past[0].Error, "the last run did not finish: the sandbox was killed")
}

func TestInterruptEndsTheWaitForTheHost(t *testing.T) {
	p := newPlace(t, "#!/bin/sh\n").inSandbox(t, "build")
	p.env = append(p.env, wire.SessionEnv+"=GONE")
	cmd := p.command(p.program(), "build")
	said, err := cmd.StderrPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, loop.WaitingForHost+"\n")
	assert.NilError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.Equal(t, cmd.ProcessState.ExitCode(), loop.Interrupted.ExitCode())
}
