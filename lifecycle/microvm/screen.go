package microvm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/creack/pty"
	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// screen is a terminal of ours that the client writes to in place of the
// user's, so that what comes from the sandbox passes us.
type screen struct {
	master, slave *os.File
	copied        chan struct{}
}

// screenPatience is how long what is left on a screen may take to be written.
const screenPatience = 2 * time.Second

// newScreen puts a screen between a client and the process's output. It returns
// nil where that is the terminal itself, and where there are no terminals to be
// had: the client writes to the user's then.
func newScreen(cmd *exec.Cmd, p lifecycle.Process) (*screen, error) {
	_, stdout, _ := p.Terminal.Files()
	if p.Stdout == io.Writer(stdout) {
		return nil, nil
	}
	master, slave, err := pty.Open()
	if errors.Is(err, pty.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("making a terminal: %w", err)
	}
	s := &screen{master: master, slave: slave, copied: make(chan struct{})}
	// What ends a line is changed once, by the user's terminal.
	if _, err := term.SetRawTerminal(slave.Fd()); err != nil {
		_ = s.end()
		return nil, fmt.Errorf("setting a terminal: %w", err)
	}
	s.resize(p.Terminal)
	cmd.Stdout = slave
	return s, nil
}

// resize gives it the size of the user's terminal.
func (s *screen) resize(t lifecycle.Terminal) {
	if s == nil {
		return
	}
	height, width := t.Size()
	_ = pty.Setsize(s.master, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}) // a wrong size is no reason to end
}

// show begins to write what the client writes, which has been started.
func (s *screen) show(out io.Writer) {
	if s == nil {
		return
	}
	_ = s.slave.Close()
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(out, s.master) // ends with the last who has the other end
	}()
}

// close waits for what the client wrote at last.
func (s *screen) close() {
	if s == nil {
		return
	}
	select {
	case <-s.copied:
	case <-time.After(screenPatience): // something that the client has left has it still
	}
	_ = s.master.Close()
	<-s.copied
}

// end gives up a screen that nobody has written to.
func (s *screen) end() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.slave.Close(), s.master.Close())
}
