// Package compat lays out the files that programs around the original ralph
// rely on: the program as ralph.sh, its task command, the models, the hooks
// and the skills of Claude Code.
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

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// Program is the name of the program in a layout.
const Program = "ralph.sh"

// Source is what a layout is made of.
type Source struct {
	// Program is the path of ralph itself.
	Program string
	// Models is the content of models.json.
	Models []byte
}

// file is one file of a layout. There are no links: whoever writes to lib/task
// must not write to the program.
type file struct {
	path    string // below the layout, with slashes
	content []byte
	mode    fs.FileMode
	// yours says that it is there to be edited: if it was, it stays.
	yours bool
}

// sum identifies a content, in hex digits.
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
		{path: "models.json", content: s.Models, mode: 0o644, yours: true},
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

// wrapper runs a command of the program above its own folder, from wherever it
// is called. It starts no other program unless it is called by a link.
func wrapper(command string) []byte {
	return []byte(`#!/bin/sh
# Written by ralph install-layout.
here=$0
if [ -L "$here" ]; then here=$(readlink -f -- "$here"); fi
case $here in */*) ;; *) here=./$here ;; esac
exec "${here%/*}/../` + Program + `" ` + command + "\n")
}

// IsTask says whether the file at path is the lib/task of a layout, and not
// another program in its place.
func IsTask(path string) bool {
	want := wrapper(`task "$@"`)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
		return false
	}
	content, err := os.ReadFile(path)
	return err == nil && bytes.Equal(content, want)
}

// Install lays out everything in dir, which is made if it is missing. Over a
// layout of its own, finished or not and of any version, it renews what has
// changed; a models.json that was edited stays. Every other file in the way is
// an error, and then nothing is changed.
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
	// Noted before it is written: a layout that was broken off is known too.
	if err := writeManifest(dir, all, known); err != nil {
		return err
	}
	for _, f := range todo {
		if err := f.write(dir); err != nil {
			return err
		}
	}
	return writeManifest(dir, all, nil)
}

// compare says which files have to be written. Files that nobody of ours has
// written, or that were edited, are an error that names them all.
func compare(dir string, all []file, known manifest) ([]file, error) {
	var todo []file
	var foreign []string
	for _, f := range all {
		if err := plainFolders(dir, f.path); err != nil {
			return nil, err
		}
		is, mode, err := inspect(filepath.Join(dir, filepath.FromSlash(f.path)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			todo = append(todo, f)
		case err != nil:
			return nil, err
		case is == sum(f.content):
			if mode != f.mode {
				todo = append(todo, f)
			}
		case known.has(f.path, is):
			todo = append(todo, f)
		case f.yours && known[f.path] != nil: // it stays
		default:
			foreign = append(foreign, f.path)
		}
	}
	if len(foreign) > 0 {
		return nil, hint.Wrap(fmt.Errorf("refusing to overwrite %s", strings.Join(foreign, ", ")), "move them away, or choose another directory")
	}
	return todo, nil
}

// plainFolders refuses links on the way to a file: they lead to other people's
// folders.
func plainFolders(dir, path string) error {
	for i, c := range path {
		if c != '/' {
			continue
		}
		folder := filepath.Join(dir, filepath.FromSlash(path[:i]))
		info, err := os.Lstat(folder)
		if err != nil {
			return ignoreMissing(err)
		}
		if !info.IsDir() {
			return hint.Wrap(fmt.Errorf("%s is not a directory", folder), "move it away, or choose another directory")
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inspect returns the sum and the permissions of the file at path. What is no
// file has no sum.
func inspect(path string) (is string, mode fs.FileMode, err error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, err
	}
	content, err := os.ReadFile(path)
	return sum(content), info.Mode().Perm(), err
}
