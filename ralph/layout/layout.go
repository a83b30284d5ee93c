// Package layout lays out the files that programs around the original ralph
// rely on: the program as ralph.sh, its task command, the models, the hooks
// and the skills of Claude Code.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/hook"
	"github.com/docker-ralph/docker-ralph/ralph/prompt"
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

// file is one file of a layout: a link, or content.
type file struct {
	path    string // below the layout, with slashes
	content []byte
	link    string
	mode    fs.FileMode
	// yours says that it is there to be edited: if it was, it stays.
	yours bool
}

// sum identifies what a file is, in hex digits.
func (f file) sum() string {
	h := sha256.New()
	if f.link != "" {
		_, _ = h.Write([]byte("link to " + f.link))
	} else {
		_, _ = h.Write(f.content)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func files(s Source) ([]file, error) {
	program, err := os.ReadFile(s.Program)
	if err != nil {
		return nil, fmt.Errorf("reading the program itself: %w", err)
	}
	prompts, err := prompt.Builtin()
	if err != nil {
		return nil, err
	}
	all := []file{ // the program first
		{path: Program, content: program, mode: 0o755},
		{path: "lib/task", link: "../" + Program},
		{path: "models.json", content: s.Models, mode: 0o644, yours: true},
	}
	for _, name := range []string{hook.PreCompact, hook.SessionEnd} {
		all = append(all, file{path: hookFile(name), content: wrapper(name), mode: 0o755})
	}
	for _, p := range prompts {
		all = append(all, file{path: "skills/" + p.Skill + "/SKILL.md", content: []byte(p.Text), mode: 0o644})
	}
	return all, nil
}

func hookFile(name string) string { return "hooks/" + name + ".sh" }

// wrapper runs a hook of the program above its own folder, from wherever it is
// called.
func wrapper(name string) []byte {
	return []byte("#!/bin/sh\n" +
		`exec "$(dirname -- "$(readlink -f -- "$0")")/../` + Program + `" _hook ` + name + "\n")
}

// Install lays out everything in dir, which is made if it is missing. Over a
// layout of its own, finished or not and of any version, it renews what has
// changed; a models.json that was edited stays. Every other file in the way is
// an error, and then nothing is changed.
func Install(dir string, s Source) error {
	if err := install(dir, s); err != nil {
		return fmt.Errorf("laying out ralph in %s: %w", dir, err)
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
		sum, mode, err := inspect(filepath.Join(dir, filepath.FromSlash(f.path)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			todo = append(todo, f)
		case err != nil:
			return nil, err
		case sum == f.sum():
			if f.link == "" && mode != f.mode {
				todo = append(todo, f)
			}
		case known.has(f.path, sum), f.link != "" && (known.has(Program, sum) || sum == all[0].sum()):
			todo = append(todo, f) // a link may have become a copy of the program
		case f.yours && known[f.path] != nil: // it stays
		default:
			foreign = append(foreign, f.path)
		}
	}
	if len(foreign) > 0 {
		return nil, fmt.Errorf("not written by ralph, or changed since: %s. Move that away, or choose another folder", strings.Join(foreign, ", "))
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
			return fmt.Errorf("%s is not a folder. Move it away, or choose another folder", folder)
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

// inspect returns the sum and the permissions of what is at path. What is
// neither a file nor a link has no sum.
func inspect(path string) (sum string, mode fs.FileMode, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", 0, err
	}
	var f file
	switch {
	case info.Mode().IsRegular():
		f.content, err = os.ReadFile(path)
	case info.Mode()&fs.ModeSymlink != 0:
		f.link, err = os.Readlink(path)
	default:
		return "", 0, nil
	}
	return f.sum(), info.Mode().Perm(), err
}
