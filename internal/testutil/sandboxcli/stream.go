package sandboxcli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/creack/pty"
	"github.com/moby/term"
	"golang.org/x/sys/unix"
)

// leftOver limits the wait for the end of output that a leftover process holds open, as the
// engine does.
const leftOver = 2 * time.Second

// pipes runs a command without a terminal.
func (p processes) pipes(conn *net.UnixConn, req request, g guest) (int, error) {
	ours, err := connect(conn, req)
	if err != nil {
		return 0, err
	}
	go func() {
		if g.stdin {
			_, _ = io.Copy(ours[0], p.c.stdin)
		}
		_ = ours[0].Close()
	}()
	output := make(chan struct{}, 2)
	for i, to := range []*os.File{p.c.stdout, p.c.stderr} {
		go func() {
			_, _ = io.Copy(to, ours[i+1])
			output <- struct{}{}
		}()
	}
	code, err := p.wait(conn, req)
	timeout := time.After(leftOver)
	for range 2 {
		select {
		case <-output:
		case <-timeout:
			return code, err
		}
	}
	return code, err
}

// connect sends a request with pipes for its stdin, stdout and stderr, and
// returns their other ends. The background process gets the reading ends of
// the output too, to continue reading after the exit of this client.
func connect(conn *net.UnixConn, req request) ([]*os.File, error) {
	var ours, theirs []*os.File
	for i := range 3 {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	err := send(conn, req, theirs[0], theirs[1], theirs[2], ours[1], ours[2])
	for _, f := range theirs {
		_ = f.Close()
	}
	return ours, err
}

// pipe creates a pipe whose ends block, as programs expect.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// terminal runs a command on a new terminal, tied to the user's.
func (p processes) terminal(conn *net.UnixConn, req request, g guest) (int, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return 0, fmt.Errorf("making a terminal: %w", err)
	}
	defer func() { _ = master.Close() }()
	_ = pty.InheritSize(p.c.stdin, master) // no size without a terminal
	err = send(conn, req, slave, master)
	_ = slave.Close()
	if err != nil {
		return 0, err
	}
	restore, err := p.c.raw()
	if err != nil {
		return 0, err
	}
	defer restore()
	go p.followSize(master)
	detach, output, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	if g.stdin {
		go p.c.keys(master, g.detachKeys, detach)
	}
	go func() {
		_, _ = io.Copy(p.c.stdout, master)
		close(output)
	}()
	var code int
	go func() {
		code, err = p.wait(conn, req)
		close(ended)
	}()
	select {
	case <-detach:
		return 0, p.c.errDetached()
	case <-ended:
	}
	select {
	case <-output:
	case <-time.After(leftOver):
	}
	return code, err
}

// followSize copies the size of the user's terminal.
func (p processes) followSize(master *os.File) {
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	for {
		_ = pty.InheritSize(p.c.stdin, master)
		<-sizes
	}
}

// raw puts the user's terminal into raw mode.
func (c *call) raw() (restore func(), err error) {
	if in, _ := c.terminals(); !in {
		return func() {}, nil
	}
	state, err := term.SetRawTerminal(c.stdin.Fd())
	if err != nil {
		return nil, fmt.Errorf("setting up the terminal: %w", err)
	}
	return func() { _ = term.RestoreTerminal(c.stdin.Fd(), state) }, nil
}

// keys forwards input until the user presses the detach keys.
func (c *call) keys(to io.Writer, detachKeys []byte, detach chan<- struct{}) {
	_, err := io.Copy(to, term.NewEscapeProxy(c.stdin, detachKeys))
	if _, ok := errors.AsType[term.EscapeError](err); ok {
		close(detach)
	}
}
