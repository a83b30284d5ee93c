package plugin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runflags"
)

// The commands that can have the user's terminal to themselves.
const (
	runCommand   = "run"
	shellCommand = "shell"
)

// fitStreams gives a command the streams that it needs, and reports whether its
// output goes on as it is. An agent that is asked once gets no terminal.
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
		return false, d.misplaced(name, args, err)
	case flags.Once && d.cli.In().IsTerminal():
		h.Terminal, h.Stdin = nil, nil
	case !flags.Once && d.cli.In().IsTerminal() && h.Terminal == nil:
		return false, hint.Wrap(errors.New("the agent's interface needs a terminal: standard output is not a terminal"), "pass a prompt with -p or on standard input")
	}
	return h.Terminal != nil, nil
}

// misplaced says of an option of ours behind a command where it belongs.
func (d dispatcher) misplaced(command string, args []string, err error) error {
	for _, arg := range args {
		option, _, _ := strings.Cut(arg, "=")
		if name, long := strings.CutPrefix(option, "--"); long && d.options.flags.Lookup(name) != nil {
			return hint.Wrap(fmt.Errorf("%s has to precede the command", option), "run %q", "docker ralph "+arg+" "+command)
		}
	}
	return err
}
