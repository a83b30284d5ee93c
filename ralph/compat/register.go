package compat

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// Register registers the layout in dir with Claude Code, whose directory is claudeDir:
// it links the skills and adds the hooks to the settings. Links to other layouts
// are replaced; skills that are not links are an error.
func Register(dir, claudeDir string) error {
	if err := register(dir, claudeDir); err != nil {
		return fmt.Errorf("registering ralph with Claude Code: %w", err)
	}
	return nil
}

func register(dir, claudeDir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	prompts, err := agent.BuiltinPrompts()
	if err != nil {
		return err
	}
	skills := filepath.Join(claudeDir, "skills")
	for _, p := range prompts {
		path := filepath.Join(skills, p.Skill)
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return hint.Wrap(fmt.Errorf("%s already exists", path), "move it away to install the skill of that name")
		}
	}
	if err := os.MkdirAll(skills, 0o755); err != nil {
		return err
	}
	// The settings come first: they can be invalid.
	err = agent.RegisterHooks(filepath.Join(claudeDir, "settings.json"), func(name string) string {
		return "bash " + agent.ShellQuote(filepath.Join(dir, hookFile(name)))
	})
	if err != nil {
		return err
	}
	for _, p := range prompts {
		if err := replaceLink(filepath.Join(dir, "skills", p.Skill), filepath.Join(skills, p.Skill)); err != nil {
			return err
		}
	}
	return nil
}

// replaceLink creates a symbolic link, or replaces one atomically.
func replaceLink(target, path string) error {
	temp := path + "." + rand.Text()
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}
