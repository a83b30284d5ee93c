// Command generate writes docs/reference from the plugin's command tree. With
// --check it writes nothing, and fails if anything there is out of date.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	clidocstool "github.com/docker/cli-docs-tool"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/plugin"
)

const reference = "docs/reference"

func main() {
	log.SetOutput(io.Discard) // the tool tells of every file
	if err := run(slices.Contains(os.Args[1:], "--check")); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	if !check {
		return generate(reference)
	}
	dir, err := os.MkdirTemp("", "reference")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := generate(dir); err != nil {
		return err
	}
	return compare(dir, reference)
}

// generate writes the reference into a folder. What people have written
// around the generated parts is taken from the one in the repository.
func generate(target string) error {
	dockerCLI, err := command.NewDockerCli()
	if err != nil {
		return err
	}
	root := &cobra.Command{Use: "docker [OPTIONS] COMMAND", DisableAutoGenTag: true}
	ralph := plugin.NewRootCommand(dockerCLI, nil, "")
	for _, cmd := range ralph.Commands() {
		if cmd.Name() == "task" {
			cmd.Long = "```text\n" + cmd.Long + "```"
		}
		if text := cmd.Annotations[plugin.ExitCodes]; text != "" {
			cmd.Long += "\n\n```text\n" + text + "\n```"
		}
	}
	root.AddCommand(ralph)
	tool, err := clidocstool.New(clidocstool.Options{Root: root, SourceDir: reference, TargetDir: target, Plugin: true})
	if err != nil {
		return err
	}
	return tool.GenMarkdownTree(root)
}

// compare names the files that differ.
func compare(want, got string) error {
	files, err := filepath.Glob(filepath.Join(want, "*.md"))
	if err != nil {
		return err
	}
	existing, err := filepath.Glob(filepath.Join(got, "*.md"))
	if err != nil {
		return err
	}
	var stale []error
	for _, name := range existing {
		if !slices.Contains(files, filepath.Join(want, filepath.Base(name))) {
			stale = append(stale, fmt.Errorf("%s is of a command that does not exist", name))
		}
	}
	for _, name := range files {
		w, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		path := filepath.Join(got, filepath.Base(name))
		if g, err := os.ReadFile(path); err != nil || !bytes.Equal(w, g) {
			stale = append(stale, fmt.Errorf("%s is out of date: run \"make docs\"", path))
		}
	}
	return errors.Join(stale...)
}
