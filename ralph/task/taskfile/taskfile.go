// Package taskfile reads the task lists of other programs.
package taskfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Bounds of a list.
const (
	maxFile  = 16 << 20 // in bytes
	maxTasks = 10_000
	maxDeps  = 100_000   // of all tasks
	maxText  = 256 << 10 // of a task, in bytes
	maxID    = 256       // in bytes
)

// List is a task list. Its tasks have unique IDs and are in the order of the file. Their dependencies have no cycles, and
// can name tasks that are not in the list.
type List struct {
	Format  string // empty for an empty list
	Tasks   []backlog.NewTask
	Dropped []string // what was not read, and why
	Ignored []string // names of fields without a counterpart, sorted
}

// Options are the options of [Read].
type Options struct {
	// Format is the name of the format; empty to detect it.
	Format string
	// Prefix comes before each ID.
	Prefix string
	// Path is the path of the file; empty if it is unknown. The IDs of spec-kit are unique in one directory only.
	Path string
	// Spec is the spec of the tasks of spec-kit.
	Spec string
}

// format is a format of task lists.
type format struct {
	name string
	// detect reports whether JSON values are in this format; nil for text.
	detect func(values []value) bool
	// read adds the tasks of JSON values, and readText those of check boxes.
	read     func(*reader, []value) error
	readText func(*reader, []box)
}

// formats lists the formats in the order of detection.
func formats() []format {
	return []format{
		{name: "ralph", detect: isRalph, read: readRalph},
		{name: "prd", detect: isPRD, read: readPRD},
		{name: "taskmaster", detect: isTaskMaster, read: readTaskMaster},
		{name: "github", detect: isGitHub, read: readGitHub},
		{name: "beads", detect: isBeads, read: readBeads},
		{name: "spec-kit", readText: readSpecKit},
		{name: "markdown", readText: readMarkdown},
	}
}

// Formats returns the names of the formats.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// reader collects the tasks of a list.
type reader struct {
	Options
	items   []item
	dropped []string
	ignored map[string]bool
	numbers map[string]int // the last number of an ID that is made of a text
}

// item is a task as in the file, with the ID of the file.
type item struct {
	backlog.NewTask
	line int
}

// add adds a task. [reader.finish] checks it.
func (r *reader) add(line int, t backlog.NewTask) { r.items = append(r.items, item{t, line}) }

func (r *reader) drop(format string, args ...any) {
	r.dropped = append(r.dropped, fmt.Sprintf(format, args...))
}

// ignore reports a field that has no counterpart.
func (r *reader) ignore(name string) { r.ignored[name] = true }

// lineError is an error at a line of the file.
func lineError(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
}

// Read reads a task list.
func Read(in io.Reader, o Options) (List, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return List{}, err
	case len(data) > maxFile:
		return List{}, fmt.Errorf("larger than %d MiB", maxFile>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return List{}, hint.Wrap(errors.New("not UTF-8 text"), "save it as UTF-8")
	}
	r := &reader{Options: o, ignored: map[string]bool{}, numbers: map[string]int{}}
	name, err := r.read(data)
	if err != nil {
		return List{}, err
	}
	list := List{Format: name, Dropped: r.dropped}
	if list.Tasks, err = r.finish(); err != nil {
		return List{}, err
	}
	list.Dropped = r.dropped
	for field := range r.ignored {
		list.Ignored = append(list.Ignored, field)
	}
	slices.Sort(list.Ignored)
	return list, nil
}

// read reads the data in the wanted or the detected format, and returns its name.
func (r *reader) read(data []byte) (name string, err error) {
	i := slices.IndexFunc(formats(), func(f format) bool { return f.name == r.Format })
	if i < 0 && r.Format != "" {
		return "", fmt.Errorf("unknown format '%s': use %s", r.Format, strings.Join(Formats(), ", "))
	}
	start := bytes.TrimSpace(data)
	first, _, _ := bytes.Cut(start, []byte("\n"))
	isJSON := len(start) > 0 && (start[0] == '{' || start[0] == '[') && !boxLine().Match(first)
	switch {
	case len(start) == 0:
		return "", errors.New("empty file")
	case i >= 0 && formats()[i].readText != nil || i < 0 && !isJSON:
		return r.readText(r.Format, string(data))
	}
	values, err := parseValues(data)
	if err != nil {
		return "", err
	}
	if all, err := elements(values); err == nil && len(all) == 0 {
		return r.Format, nil
	}
	for _, f := range formats() {
		if f.read != nil && (f.name == r.Format || r.Format == "" && f.detect(values)) {
			return f.name, f.read(r, values)
		}
	}
	return "", unknownFormat()
}

func (r *reader) readText(name, text string) (string, error) {
	list := boxes(strings.ReplaceAll(text, "\r\n", "\n"))
	switch {
	case len(list) == 0 && name == "":
		return "", unknownFormat()
	case len(list) > maxTasks:
		return "", tooManyTasks()
	case name == "" && isSpecKit(list):
		name = "spec-kit"
	case name == "":
		name = "markdown"
	}
	i := slices.IndexFunc(formats(), func(f format) bool { return f.name == name })
	formats()[i].readText(r, list)
	return name, nil
}

func tooManyTasks() error { return fmt.Errorf("more than %d tasks", maxTasks) }

func unknownFormat() error {
	return hint.Wrap(errors.New("not a task list in a known format"), "name the format with --from: %s", strings.Join(Formats(), ", "))
}
