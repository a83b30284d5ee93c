package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/help"
	"github.com/docker-ralph/docker-ralph/ralph/layout"
)

// installLayout carries out "ralph install-layout [--claude] DIR".
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
		o.complain(err.Error())
		return exitFailure
	}
	return exitOK
}

func (o Options) layOut(dir string, claude bool) error {
	if dir == "" {
		return errors.New("missing folder. Usage: ralph install-layout [--claude] DIR")
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return fmt.Errorf("finding the program itself: %w", err)
	}
	if err := layout.Install(dir, layout.Source{Program: self, Models: agent.Models(), Version: o.Version}); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(o.Stdout, "%s\n", filepath.Join(dir, layout.Program))
	if !claude {
		return nil
	}
	claudeDir := os.Getenv("CLAUDE_CONFIG_DIR")
	if claudeDir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("finding the folder of Claude Code: %w", err)
		}
		claudeDir = filepath.Join(home, ".claude")
	}
	return layout.Register(dir, claudeDir)
}
