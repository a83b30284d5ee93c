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

// screen is a pseudo-terminal for the client's output, which is filtered before the user's
// terminal.
type screen struct {
	master, slave *os.File
	copied        chan struct{}
}

// screenTimeout bounds the writing of the rest of the output.
const screenTimeout = 2 * time.Second

// newScreen connects a screen to the process's output. It returns nil if the client
// writes to the user's terminal: for unfiltered output, and without pseudo-terminals.
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
		return nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	s := &screen{master: master, slave: slave, copied: make(chan struct{})}
	// Only the user's terminal translates line ends.
	if _, err := term.SetRawTerminal(slave.Fd()); err != nil {
		_ = s.end()
		return nil, fmt.Errorf("configuring a pseudo-terminal: %w", err)
	}
	s.resize(p.Terminal)
	cmd.Stdout = slave
	return s, nil
}

// resize copies the size of the user's terminal.
func (s *screen) resize(t lifecycle.Terminal) {
	if s == nil {
		return
	}
	height, width := t.Size()
	_ = pty.Setsize(s.master, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}) // a wrong size is no reason to end
}

// show starts copying the output of the client, which has been started.
func (s *screen) show(out io.Writer) {
	if s == nil {
		return
	}
	_ = s.slave.Close()
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(out, s.master) // ends when the other end is closed
	}()
}

// close waits for the rest of the client's output.
func (s *screen) close() {
	if s == nil {
		return
	}
	select {
	case <-s.copied:
	case <-time.After(screenTimeout): // a process that the client has left still has it open
	}
	_ = s.master.Close()
	<-s.copied
}

// end closes an unused screen.
func (s *screen) end() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.slave.Close(), s.master.Close())
}
