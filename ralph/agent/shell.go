package agent

import (
	"context"
	"errors"
	"os/exec"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// ShellName is the name of the built-in agent.
const ShellName = "shell"

// ShellCommand is the hidden command that runs the shell agent, followed by the mode.
const ShellCommand = "_shell-agent"

// shell is the built-in agent, which runs a task's steps as shell commands. It runs as a
// separate process like every other agent.
type shell struct{}

func (shell) Name() string           { return ShellName }
func (shell) Backend(Session) string { return "none (steps run as shell commands)" }
func (shell) Model(Session) string   { return "" }

func (shell) Prompt(s Session) string {
	if s.Mode == Run {
		return "commands of a shell"
	}
	if s.Mode == Plan {
		return "ralph-tasks blocks in specs/**/*.md"
	}
	return "steps of the task"
}

func (shell) Check(s Session) error {
	if !s.Sandboxed && !s.Danger {
		return hint.Wrap(errors.New("refusing to run the shell agent without a sandbox: it runs commands of this repository"), "use docker ralph, or pass --danger")
	}
	return nil
}

func (sh shell) Prepare(_ context.Context, s Session) (Command, error) {
	if err := sh.Check(s); err != nil {
		return Command{}, err
	}
	return Command{Path: s.Program, Args: []string{ShellCommand, string(s.Mode)}, Stdin: s.Ask}, nil
}

// Interactive returns a shell.
func (sh shell) Interactive(context.Context, Session) (Command, error) {
	path, err := BestShell()
	return Command{Path: path}, err
}

// BestShell returns the path of bash or sh.
func BestShell() (string, error) {
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither bash nor sh is on PATH")
}

func (shell) Decoder() event.Decoder { return modelless{stream.Claude()} }

// modelless ignores rate limits: steps may print anything.
type modelless struct{ event.Decoder }

func (m modelless) Decode(piece []byte) []event.Event { return withoutLimits(m.Decoder.Decode(piece)) }

func (m modelless) End() []event.Event { return withoutLimits(m.Decoder.End()) }

func withoutLimits(events []event.Event) []event.Event {
	return slices.DeleteFunc(events, func(e event.Event) bool {
		_, is := e.(event.RateLimit)
		return is
	})
}
