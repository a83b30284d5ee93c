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
	// command completes the command line of a run. Path, prompt and model are set.
	command func(ctx context.Context, s Session, cmd *Command) error
	// interactive completes the command line of an interactive session.
	interactive   func(s Session, cmd *Command) error
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
	path, err := findAgent(h.name, h.install)
	if err != nil {
		return Command{}, err
	}
	text, err := promptText(ctx, s)
	if err != nil {
		return Command{}, err
	}
	s.Model = h.Model(s)
	cmd := Command{Path: path, Stdin: text}
	err = h.command(ctx, s, &cmd)
	return cmd, err
}

func (h headless) Interactive(_ context.Context, s Session) (Command, error) {
	path, err := findAgent(h.name, h.install)
	if err != nil {
		return Command{}, err
	}
	s.Model = h.Model(s)
	cmd := Command{Path: path}
	err = h.interactive(s, &cmd)
	return cmd, err
}

// bypassed reports whether the agent skips permission prompts.
func bypassed(s Session) bool { return s.Danger || s.Sandboxed && s.Bypass }

// model adds the --model flag if a model is set.
func (c *Command) model(s Session) {
	if s.Model != "" {
		c.Args = append(c.Args, "--model", s.Model)
	}
}
