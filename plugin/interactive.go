package plugin

import (
	"errors"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runflags"
)

// The interactive commands.
const (
	runCommand   = "run"
	shellCommand = "shell"
)

// fitStreams selects the streams of a command, and reports whether its output is passed
// on unfiltered. An agent with a single prompt gets no terminal.
func (d dispatcher) fitStreams(h *host.Host, name string, args []string) (raw bool, err error) {
	switch name {
	case shellCommand:
		return h.Terminal != nil || !d.cli.Out().IsTerminal(), nil
	case runCommand:
	default:
		return false, nil
	}
	flags, err := runflags.Parse(args)
	switch {
	case err != nil:
		return false, err
	case flags.Once && d.cli.In().IsTerminal():
		h.Terminal, h.Stdin = nil, nil
	case !flags.Once && d.cli.In().IsTerminal() && h.Terminal == nil:
		return false, hint.Wrap(errors.New("the agent's interface needs a terminal: standard output is not a terminal"), "pass a prompt with -p or on standard input")
	}
	return h.Terminal != nil, nil
}
