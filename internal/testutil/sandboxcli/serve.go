package sandboxcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// server runs the commands that clients send.
type server struct{ clients sync.WaitGroup }

func (s *server) serve(listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		s.clients.Go(func() { serveOne(conn) })
	}
}

// drain waits shortly until clients have the exit codes of their commands.
func (s *server) drain() {
	done := make(chan struct{})
	go func() {
		s.clients.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(leftOver):
	}
}

func serveOne(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	req, files, err := receive(conn)
	if err != nil {
		return
	}
	if req.Hold {
		hold(conn, files[0])
		return
	}
	stdio, kept := files, []*os.File(nil)
	if req.TTY {
		stdio, kept = files[:1], files[1:]
	} else if !req.Detached {
		stdio, kept = files[:3], files[3:]
	}
	cmd, err := launch(req, stdio)
	for _, f := range stdio {
		_ = f.Close()
	}
	if err != nil {
		reply(conn, answer{Error: reason(err)})
		return
	}
	if req.Detached {
		reply(conn, answer{})
		_ = cmd.Wait()
		return
	}
	gone := make(chan struct{})
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // it sends no more: this is its end
		// The output of the command is still read.
		for _, f := range kept {
			go func() {
				_, _ = io.Copy(io.Discard, f)
				_ = f.Close()
			}()
		}
		close(gone)
	}()
	_ = cmd.Wait()
	reply(conn, answer{Code: exitCode(cmd.ProcessState)})
	<-gone
}

// hold keeps a connection to an engine open after the exit of the client. An old engine would
// end a command's terminal with the connection.
func hold(conn *net.UnixConn, engine *os.File) {
	defer func() { _ = engine.Close() }()
	_, _ = conn.Read(make([]byte, 1)) // it sends no more: this is its end
	raw, err := engine.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // the end of stdin
	_, _ = io.Copy(io.Discard, engine)
}

func reply(conn *net.UnixConn, a answer) { _ = json.NewEncoder(conn).Encode(a) }

// receive reads a request with its descriptors.
func receive(conn *net.UnixConn) (request, []*os.File, error) {
	var req request
	oob := make([]byte, unix.CmsgSpace(8*4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return req, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return req, nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return req, nil, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "guest"))
		}
	}
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return req, nil, err
	}
	want := 5
	switch {
	case req.Hold:
		want = 1
	case req.Detached:
		want = 0
	case req.TTY:
		want = 2
	}
	if len(files) != want {
		return req, nil, fmt.Errorf("got %d descriptors", len(files))
	}
	return req, files, nil
}

// launch starts a command in a new session.
func launch(req request, stdio []*os.File) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: req.Path, Args: req.Args, Env: req.Env, Dir: req.Dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range stdio {
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
			return nil, err
		}
	}
	if len(stdio) == 1 {
		stdio = []*os.File{stdio[0], stdio[0], stdio[0]}
		cmd.SysProcAttr.Setctty = true
	}
	if len(stdio) == 3 {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio[0], stdio[1], stdio[2]
	}
	return cmd, cmd.Start()
}

func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

// exitCode returns the exit code of a shell.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
