package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// headless is an agent that reads a prompt from standard input, which has no length
// limit, runs unattended and exits.
type headless struct {
	name    string
	install string // installation command
	backend string
	decoder func() event.Decoder
	// command completes the command line of a run, or of an interactive session. Path,
	// prompt and model are set.
	command       func(ctx context.Context, s Session, cmd *Command, interactive bool) error
	noPermissions bool // the agent has no permission system
}

// headlessAgents returns the built-in agents, with the command lines that their vendors
// document for unattended use.
func headlessAgents() []Adapter {
	return []Adapter{codex(), gemini(), opencode(), crush(), copilot()}
}

func (h headless) Name() string            { return h.name }
func (h headless) Prompt(s Session) string { return "ralph-" + string(s.Mode) }
func (h headless) Backend(Session) string  { return h.backend }
func (h headless) Decoder() event.Decoder  { return h.decoder() }
func (h headless) Model(s Session) string {
	return resolveModel(s.Model, h.backend, filepath.Dir(s.Program))
}

func (h headless) Check(s Session) error {
	if h.noPermissions && !s.Sandboxed && !s.Danger {
		return hint.Wrap(fmt.Errorf("refusing to run %s without a sandbox: it runs every command without asking", h.name), "use docker ralph, or pass --danger")
	}
	_, err := findAgent(h.name, h.install)
	return err
}

func findAgent(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", hint.Wrap(fmt.Errorf("%s is not installed or not on PATH", name), "install it with %q", install)
	case err != nil:
		return "", fmt.Errorf("finding %s: %w", name, err)
	}
	return path, nil
}

func (h headless) Prepare(ctx context.Context, s Session) (Command, error) {
	if err := h.Check(s); err != nil {
		return Command{}, err
	}
	text, err := promptText(ctx, s)
	if err != nil {
		return Command{}, err
	}
	return h.start(ctx, s, Command{Stdin: text}, false)
}

func (h headless) Interactive(ctx context.Context, s Session) (Command, error) {
	return h.start(ctx, s, Command{}, true)
}

func (h headless) start(ctx context.Context, s Session, cmd Command, interactive bool) (_ Command, err error) {
	if cmd.Path, err = findAgent(h.name, h.install); err != nil {
		return Command{}, err
	}
	s.Model = h.Model(s)
	err = h.command(ctx, s, &cmd, interactive)
	return cmd, err
}

// bypassed reports whether the agent skips permission prompts.
func bypassed(s Session) bool { return s.Danger || s.Sandboxed && s.Bypass }

func (c *Command) add(args ...string) { c.Args = append(c.Args, args...) }

// model adds the --model flag if a model is set.
func (c *Command) model(s Session) {
	if s.Model != "" {
		c.add("--model", s.Model)
	}
}
