// Package compat installs the directory layout of the original ralph: ralph.sh, its
// task command, the models, and the hooks and skills of Claude Code.
package compat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// Program is the name of the program in a layout.
const Program = "ralph.sh"

// Source is the source of a layout.
type Source struct {
	Program string // path of ralph
	Models  []byte // content of models.json
}

// file is a file of a layout. It is never a link: writing to lib/task must not
// write to the program.
type file struct {
	path     string // relative
	content  []byte
	mode     fs.FileMode
	editable bool // preserved if edited
}

// sum returns the SHA-256 of a content in hex.
func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func files(s Source) ([]file, error) {
	program, err := os.ReadFile(s.Program)
	if err != nil {
		return nil, fmt.Errorf("reading the ralph program: %w", err)
	}
	prompts, err := agent.BuiltinPrompts()
	if err != nil {
		return nil, err
	}
	all := []file{
		{path: Program, content: program, mode: 0o755},
		{path: "lib/task", content: wrapper(`task "$@"`), mode: 0o755},
		{path: "models.json", content: s.Models, mode: 0o644, editable: true},
	}
	for _, name := range []string{agent.PreCompact, agent.SessionEnd} {
		all = append(all, file{path: hookFile(name), content: wrapper("_hook " + name), mode: 0o755})
	}
	for _, p := range prompts {
		all = append(all, file{path: "skills/" + p.Skill + "/SKILL.md", content: []byte(p.Text), mode: 0o644})
	}
	return all, nil
}

func hookFile(name string) string { return "hooks/" + name + ".sh" }

// wrapper returns a script that runs the program in the parent of its directory. It
// starts readlink only if it is called through a link.
func wrapper(command string) []byte {
	return []byte(`#!/bin/sh
# Written by ralph install-layout.
here=$0
if [ -L "$here" ]; then here=$(readlink -f -- "$here"); fi
case $here in */*) ;; *) here=./$here ;; esac
exec "${here%/*}/../` + Program + `" ` + command + "\n")
}

// IsTask reports whether the file at path is the lib/task of a layout.
func IsTask(path string) bool {
	want := wrapper(`task "$@"`)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
		return false // without reading a large program
	}
	content, err := os.ReadFile(path)
	return err == nil && bytes.Equal(content, want)
}

// Install installs a layout in dir, or updates one of any version. An edited
// models.json is preserved. Any other conflicting file is an error, and nothing is
// changed.
func Install(dir string, s Source) error {
	if err := install(dir, s); err != nil {
		return fmt.Errorf("installing ralph in %s: %w", dir, err)
	}
	return nil
}

func install(dir string, s Source) error {
	all, err := files(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	known, err := readManifest(dir)
	if err != nil {
		return err
	}
	todo, err := compare(dir, all, known)
	if err != nil {
		return err
	}
	for _, f := range todo {
		path := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := atomicwriter.WriteFile(path, f.content, f.mode); err != nil {
			return err
		}
	}
	return writeManifest(dir, all)
}

// compare returns the files to write. Edited and unknown files are an error.
func compare(dir string, all []file, known map[string]string) ([]file, error) {
	var todo []file
	var foreign []string
	for _, f := range all {
		is, err := inspect(filepath.Join(dir, f.path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			todo = append(todo, f)
		case err != nil:
			return nil, err
		case is == sum(f.content):
		case is == known[f.path]:
			todo = append(todo, f)
		case f.editable && known[f.path] != "":
		default:
			foreign = append(foreign, f.path)
		}
	}
	if len(foreign) > 0 {
		return nil, hint.Wrap(fmt.Errorf("refusing to overwrite %s", strings.Join(foreign, ", ")), "move them away, or choose another directory")
	}
	return todo, nil
}

// inspect returns the sum of a regular file. Other files have none.
func inspect(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "none", nil
	}
	content, err := os.ReadFile(path)
	return sum(content), err
}

// manifestName is the list of files of a layout, in the format of sha256sum.
const manifestName = ".ralph-layout"

// readManifest returns the sums of the installed files by path.
func readManifest(dir string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, path, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found {
			return nil, hint.Wrap(fmt.Errorf("%s was not written by ralph", manifestName), "move it away, or choose another directory")
		}
		known[path] = sum
	}
	return known, nil
}

func writeManifest(dir string, all []file) error {
	var b strings.Builder
	for _, f := range all {
		_, _ = fmt.Fprintf(&b, "%s  %s\n", sum(f.content), f.path)
	}
	return atomicwriter.WriteFile(filepath.Join(dir, manifestName), []byte(b.String()), 0o644)
}
