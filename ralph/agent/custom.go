package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// custom is an agent defined in the configuration.
type custom struct {
	name string
	config.CustomAgent
}

// Placeholders in a custom agent's command.
const (
	promptMark     = "{prompt}"
	promptFileMark = "{prompt_file}"
	modelMark      = "{model}"
)

// maxArg is Linux's limit of one argument, in bytes.
const maxArg = 128<<10 - 1

func (c custom) Name() string            { return c.name }
func (c custom) Prompt(s Session) string { return "ralph-" + string(s.Mode) }
func (c custom) Backend(Session) string  { return "" }

func (c custom) Model(s Session) string {
	if !slices.ContainsFunc(c.Command, func(arg string) bool { return strings.Contains(arg, modelMark) }) {
		return ""
	}
	return s.Model
}

func (c custom) Decoder() event.Decoder {
	switch c.Stream {
	case "claude":
		return stream.Claude()
	case "codex":
		return stream.Codex()
	case "gemini":
		return stream.Gemini()
	case "opencode":
		return stream.Opencode()
	case "copilot":
		return stream.Copilot()
	default:
		return event.PlainText()
	}
}

func (c custom) Check(Session) error {
	_, err := c.find()
	return err
}

func (c custom) find() (string, error) {
	if len(c.Command) == 0 {
		return "", fmt.Errorf("agent %s has no command", c.name)
	}
	path, err := exec.LookPath(c.Command[0])
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("agent %s: %s is not installed or not on PATH", c.name, c.Command[0])
	}
	return path, err
}

func (c custom) Prepare(ctx context.Context, s Session) (Command, error) {
	path, err := c.find()
	if err != nil {
		return Command{}, err
	}
	text, err := promptText(ctx, s)
	if err != nil {
		return Command{}, err
	}
	cmd := Command{Path: path, Stdin: text}
	file := ""
	for _, arg := range withoutModel(c.Command[1:], s.Model) {
		if strings.Contains(arg, promptFileMark) && file == "" {
			if file, err = promptFile(s.TempDir, text); err != nil {
				return Command{}, err
			}
		}
		if strings.Contains(arg, promptMark) || strings.Contains(arg, promptFileMark) {
			cmd.Stdin = ""
		}
		// In one pass: replacements must not be replaced again.
		arg = strings.NewReplacer(promptMark, text, promptFileMark, file, modelMark, s.Model).Replace(arg)
		if len(arg) > maxArg {
			return Command{}, hint.Wrap(fmt.Errorf("agent %s: prompt of %d KiB is too long for an argument", c.name, len(text)>>10),
				"use {prompt_file} in its command, or omit both to pass the prompt on standard input")
		}
		cmd.Args = append(cmd.Args, arg)
	}
	return cmd, nil
}

// Interactive is not supported: the command line is unknown.
func (c custom) Interactive(context.Context, Session) (Command, error) {
	return Command{}, hint.Wrap(fmt.Errorf("agent %s is not interactive", c.name), "pass a prompt with -p, or start it in a shell with %q", "docker ralph shell")
}

// withoutModel removes "{model}" and the flag before it if no model is set.
func withoutModel(args []string, model string) []string {
	if model != "" {
		return args
	}
	var kept []string
	for _, arg := range args {
		if arg != modelMark {
			kept = append(kept, arg)
			continue
		}
		if n := len(kept); n > 0 && strings.HasPrefix(kept[n-1], "-") {
			kept = kept[:n-1]
		}
	}
	return kept
}

// promptFile writes a prompt to a private file.
func promptFile(dir, text string) (string, error) {
	f, err := os.CreateTemp(dir, "prompt-*.md")
	if err != nil {
		return "", fmt.Errorf("writing the prompt: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing the prompt: %w", err)
	}
	return f.Name(), nil
}
