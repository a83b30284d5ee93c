package plugin

import (
	"fmt"
	"os"
	"sync"

	"github.com/docker/cli/cli/command"
)

// terminal is the user's terminal, for a driver.
type terminal struct {
	cli     command.Cli
	resized <-chan struct{}
}

func newTerminal(cli command.Cli) *terminal {
	return &terminal{cli: cli, resized: notifyResized(cli.Out())}
}

// Size implements lifecycle.Terminal.
func (t *terminal) Size() (height, width uint) { return t.cli.Out().GetTtySize() }

// Resized implements lifecycle.Terminal.
func (t *terminal) Resized() <-chan struct{} { return t.resized }

// Files implements lifecycle.Terminal. These are what the Docker CLI's streams
// wrap.
func (t *terminal) Files() (stdin, stdout, stderr *os.File) { return os.Stdin, os.Stdout, os.Stderr }

// DetachKeys implements lifecycle.Terminal.
func (t *terminal) DetachKeys() string { return t.cli.ConfigFile().DetachKeys }

// MakeRaw implements lifecycle.Terminal.
func (t *terminal) MakeRaw() (restore func(), err error) {
	if err := t.cli.In().SetRawTerminal(); err != nil {
		return nil, fmt.Errorf("setting the input: %w", err)
	}
	if err := t.cli.Out().SetRawTerminal(); err != nil {
		t.cli.In().RestoreTerminal()
		return nil, fmt.Errorf("setting the output: %w", err)
	}
	return sync.OnceFunc(func() {
		t.cli.In().RestoreTerminal()
		t.cli.Out().RestoreTerminal()
	}), nil
}
