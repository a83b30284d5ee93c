// Package layout lays out the files that programs around the original ralph
// rely on: the program as ralph.sh, its task command, the models, the hooks
// and the skills of Claude Code.
package layout

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/ralph/hook"
	"github.com/docker-ralph/docker-ralph/ralph/prompt"
)

// Program is the name of the program in a layout.
const Program = "ralph.sh"

// marker is a file that tells a layout of ours from other people's files.
const marker = ".ralph-layout"

// Source is what a layout is made of.
type Source struct {
	// Program is the path of ralph itself.
	Program string
	// Models is the content of models.json.
	Models []byte
	// Version is written into the layout.
	Version string
}

// Install lays out everything in dir, which is created if it is missing. Over
// a layout of its own it renews everything but models.json, which is for users
// to edit. Other people's files in the way are an error, and stay.
func Install(dir string, s Source) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("laying out ralph: %w", err)
	}
	prompts, err := prompt.Builtin()
	if err != nil {
		return fmt.Errorf("laying out ralph: %w", err)
	}
	if err := claim(dir, prompts); err != nil {
		return fmt.Errorf("laying out ralph: %w", err)
	}
	steps := []func() error{
		func() error { return atomicwriter.WriteFile(filepath.Join(dir, marker), []byte(s.Version+"\n"), 0o644) },
		func() error { return copyProgram(s.Program, filepath.Join(dir, Program)) },
		func() error { return link(filepath.Join("..", Program), filepath.Join(dir, "lib", "task")) },
		func() error { return writeOnce(filepath.Join(dir, "models.json"), s.Models) },
	}
	for name := range hook.Events() {
		steps = append(steps, func() error { return write(filepath.Join(dir, hookFile(name)), wrapper(name), 0o755) })
	}
	for _, p := range prompts {
		steps = append(steps, func() error { return write(filepath.Join(dir, skillFile(p.Skill)), []byte(p.Text), 0o644) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("laying out ralph in %s: %w", dir, err)
		}
	}
	return nil
}

func hookFile(name string) string { return filepath.Join("hooks", name+".sh") }

func skillFile(skill string) string { return filepath.Join("skills", skill, "SKILL.md") }

// claim makes dir, and refuses one in which others have files of these names.
func claim(dir string, prompts []prompt.Prompt) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, marker)); err == nil {
		return nil
	}
	names := []string{Program, filepath.Join("lib", "task"), "models.json"}
	for name := range hook.Events() {
		names = append(names, hookFile(name))
	}
	for _, p := range prompts {
		names = append(names, skillFile(p.Skill))
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is there already and not from here. Choose another folder, or move it away", filepath.Join(dir, name))
		}
	}
	return nil
}

// copyProgram replaces the program at once, also while it runs.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := atomicwriter.New(to, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func link(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

func write(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, content, mode)
}

func writeOnce(path string, content []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return write(path, content, 0o644)
}

// wrapper runs a hook of the program above its own folder, from wherever it is
// called.
func wrapper(name string) []byte {
	return []byte("#!/usr/bin/env bash\n" +
		`exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../` + Program + `" _hook ` + name + "\n")
}

// Register makes the layout in dir that of the user's Claude Code, whose
// folder is claudeDir: the hooks go into its settings, the skills are linked.
func Register(dir, claudeDir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("registering ralph: %w", err)
	}
	err = hook.Register(filepath.Join(claudeDir, "settings.json"), func(name string) string {
		return "bash " + hook.Quote(filepath.Join(dir, hookFile(name)))
	})
	if err != nil {
		return err
	}
	prompts, err := prompt.Builtin()
	if err != nil {
		return fmt.Errorf("registering the skills of ralph: %w", err)
	}
	for _, p := range prompts {
		path := filepath.Join(claudeDir, "skills", p.Skill)
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("registering the skills of ralph: %s is there already and no link. Move it away", path)
		}
		if err := link(filepath.Join(dir, "skills", p.Skill), path); err != nil {
			return fmt.Errorf("registering the skills of ralph: %w", err)
		}
	}
	return nil
}
