// Command generate writes docs/reference from the plugin's command tree. With
// --check it writes nothing, and fails if anything there is out of date. With
// --release DIRECTORY it writes man pages and shell completions there.
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
	"github.com/spf13/cobra/doc"

	"github.com/docker-ralph/docker-ralph/plugin"
)

const reference = "docs/reference"

func main() {
	log.SetOutput(io.Discard) // the tool tells of every file
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "--release" {
		return errors.Join(manPages(filepath.Join(args[1], "man", "man1")), completions(filepath.Join(args[1], "completions")))
	}
	if !slices.Equal(args, []string{"--check"}) {
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
	root, err := commandTree()
	if err != nil {
		return err
	}
	tool, err := clidocstool.New(clidocstool.Options{Root: root, SourceDir: reference, TargetDir: target, Plugin: true})
	if err != nil {
		return err
	}
	return tool.GenMarkdownTree(root)
}

func commandTree() (*cobra.Command, error) {
	dockerCLI, err := command.NewDockerCli()
	if err != nil {
		return nil, err
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
	return root, nil
}

// manPages writes docker-ralph.1 and a page for each command, with the date in SOURCE_DATE_EPOCH.
func manPages(target string) error {
	root, err := commandTree()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	header := &doc.GenManHeader{Section: "1", Source: "docker-ralph", Manual: "Docker User Manuals"}
	tool, err := clidocstool.New(clidocstool.Options{Root: root, SourceDir: reference, TargetDir: target, Plugin: true, ManHeader: header})
	if err != nil {
		return err
	}
	return tool.GenManTree(root)
}

// completions are for the program itself: the Docker CLI completes "docker ralph".
func completions(target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	program := &cobra.Command{Use: "docker-ralph"}
	return errors.Join(
		program.GenBashCompletionFileV2(filepath.Join(target, "docker-ralph.bash"), true),
		program.GenZshCompletionFile(filepath.Join(target, "_docker-ralph")),
		program.GenFishCompletionFile(filepath.Join(target, "docker-ralph.fish"), true),
	)
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
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if generated := bytes.Contains(page, []byte("<!---MARKER_GEN_START-->")); generated && !slices.Contains(files, filepath.Join(want, filepath.Base(name))) {
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
