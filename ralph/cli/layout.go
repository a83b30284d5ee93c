package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/compat"
	"github.com/docker-ralph/docker-ralph/wire/help"
)

// installLayout implements "ralph install-layout [--claude] DIR".
func (o Options) installLayout(args []string) int {
	dir, claude := "", false
	for _, arg := range args {
		switch {
		case arg == "--help" || arg == "-h":
			_, _ = fmt.Fprint(o.Stdout, help.Text("install-layout"))
			return exitOK
		case arg == "--claude":
			claude = true
		case strings.HasPrefix(arg, "-") || arg == "" || dir != "":
			o.complain(fmt.Sprintf("unexpected argument '%s'", arg))
			_, _ = fmt.Fprintln(o.Stderr, "Run 'ralph install-layout --help' for usage")
			return exitFailure
		default:
			dir = arg
		}
	}
	if err := o.layOut(dir, claude); err != nil {
		o.fail(err)
		return exitFailure
	}
	return exitOK
}

func (o Options) layOut(dir string, claude bool) error {
	if dir == "" {
		return errors.New("missing directory\nUsage: ralph install-layout [--claude] DIR")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolving directory %q: %w", dir, err)
	}
	self, err := realPath()
	if err != nil {
		return err
	}
	if err := compat.Install(abs, compat.Source{Program: self, Models: agent.Models()}); err != nil {
		return err
	}
	program := filepath.Join(abs, compat.Program)
	if claude {
		claudeDir, err := claudeDir()
		if err != nil {
			return err
		}
		if err := compat.Register(abs, claudeDir); err != nil {
			return err
		}
		if onPath, err := exec.LookPath("ralph"); err != nil || !same(onPath, self) && !same(onPath, program) {
			_, _ = fmt.Fprintf(o.Stderr, "Warning: the skills run \"ralph\", which is missing on PATH or another program\nHint: link it, e.g. ln -s %s ~/.local/bin/ralph\n", agent.ShellQuote(program))
		}
	}
	_, _ = fmt.Fprintln(o.Stdout, program)
	return nil
}

// claudeDir returns the user's Claude Code directory.
func claudeDir() (string, error) {
	if dir := os.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the Claude Code directory: %w", err)
	}
	return filepath.Join(home, ".claude"), nil
}
