package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/task/taskfile"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const importUsage = "import FILE|- [--from FORMAT] [--prefix PREFIX] [--dry-run] [--format json]"

// warningsShown is how many warnings of an import are printed.
const warningsShown = 20

// importTasks adds the tasks of a file in another program's format, and what has changed in it since its last import.
func importTasks(ctx context.Context, s *session, args []string) error {
	var file string
	var from, prefix, format option
	var dryRun bool
	err := flags{
		options:  map[string]*option{"--from": &from, "--prefix": &prefix, "--format": &format},
		switches: map[string]*bool{"--dry-run": &dryRun},
		positional: func(arg string) error {
			if file != "" {
				return fmt.Errorf("unexpected argument '%s'", arg)
			}
			file = arg
			return nil
		},
	}.parse(args)
	if err != nil {
		return err
	}
	if file == "" {
		return missing("file", importUsage)
	}
	asJSON, err := isJSON(format)
	if err != nil {
		return err
	}
	list, err := s.readList(file, taskfile.Options{Format: from.value, Prefix: prefix.value})
	if err != nil {
		return err
	}
	sum, err := s.store.Merge(ctx, list.Tasks, dryRun)
	if err != nil {
		return err
	}
	result := importResult(list, sum)
	if asJSON {
		result.DryRun = dryRun
		return s.printJSON(result)
	}
	s.printImport(list.Tasks, result, dryRun)
	return nil
}

// readList reads the tasks of a file, or with "-" of standard input.
func (s *session) readList(file string, o taskfile.Options) (taskfile.List, error) {
	in, name := s.Stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return taskfile.List{}, err
		}
		defer func() { _ = f.Close() }() // only read
		in, name = f, termsafe.Name(file)
		if o.Path, err = filepath.Abs(file); err != nil {
			return taskfile.List{}, err
		}
		o.Spec = specBeside(o.Path)
	}
	list, err := taskfile.Read(in, o)
	if err != nil {
		return taskfile.List{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return list, nil
}

// specBeside returns the path below specs/ of the spec.md in the directory of a file, if there is one.
func specBeside(file string) string {
	dir := filepath.Dir(file)
	spec := filepath.Join(dir, "spec.md")
	if info, err := os.Stat(spec); err != nil || !info.Mode().IsRegular() || filepath.Base(filepath.Dir(dir)) != "specs" {
		return ""
	}
	return filepath.Base(dir) + "/spec.md"
}

func importResult(list taskfile.List, sum backlog.MergeSummary) taskjson.Import {
	result := taskjson.Import{
		Source: list.Format, Created: orEmpty(sum.Created), Updated: orEmpty(sum.Updated), Unchanged: orEmpty(sum.Unchanged),
		Kept: []taskjson.Kept{}, Dropped: orEmpty(list.Dropped), IgnoredFields: orEmpty(list.Ignored),
	}
	for _, k := range sum.Kept {
		result.Kept = append(result.Kept, taskjson.Kept{ID: k.Task, Reason: k.Reason})
	}
	for _, u := range sum.Unknown {
		result.Dropped = append(result.Dropped, u.String())
	}
	return result
}

// orEmpty returns a list that JSON does not show as null.
func orEmpty(list []string) []string { return append([]string{}, list...) }

// printImport prints what an import has done, or with dryRun would do.
func (s *session) printImport(tasks []backlog.NewTask, r taskjson.Import, dryRun bool) {
	created, updated := "created", "updated"
	if dryRun {
		created, updated = "to create", "to update"
		s.printPlanned(tasks, r)
	}
	s.printf("%d %s, %d %s, %d unchanged", len(r.Created), created, len(r.Updated), updated, len(r.Unchanged))
	if n := len(r.Kept); n > 0 {
		s.printf(", %d kept", n)
	}
	if n := len(r.Dropped); n > 0 {
		s.printf(", %d dropped", n)
	}
	s.print("\n")
	var warnings []string
	for _, k := range r.Kept {
		warnings = append(warnings, fmt.Sprintf("task '%s' %s", k.ID, k.Reason))
	}
	warnings = append(warnings, r.Dropped...)
	for i, w := range warnings {
		if i == warningsShown {
			s.complain(fmt.Sprintf("Warning: %d more; list them with --dry-run --format json", len(warnings)-i))
			break
		}
		s.complain("Warning: " + oneLine(w))
	}
	if len(r.IgnoredFields) > 0 {
		s.complain("Ignored fields: " + termsafe.Shorten(strings.Join(r.IgnoredFields, ", "), maxIgnored))
	}
}

// maxIgnored bounds the list of ignored fields, in characters.
const maxIgnored = 500

// printPlanned prints the tasks that an import would create and update.
func (s *session) printPlanned(tasks []backlog.NewTask, r taskjson.Import) {
	does := map[string]string{}
	for _, id := range r.Created {
		does[id] = "create"
	}
	for _, id := range r.Updated {
		does[id] = "update"
	}
	for _, t := range tasks {
		if what, ok := does[t.Slug]; ok {
			title := t.Title
			if t.Done {
				title += " (done)"
			}
			s.printRow([]int{6, 20}, what, t.Slug, title)
		}
	}
}

// exportTasks prints the tasks as lines that import and plan-sync read.
func exportTasks(ctx context.Context, s *session, args []string) error {
	var format option
	if err := (flags{options: map[string]*option{"--format": &format}}).parse(args); err != nil {
		return err
	}
	asJSON, err := isJSON(format)
	if err != nil {
		return err
	}
	tasks, err := s.store.List(ctx, backlog.Filter{})
	if err != nil {
		return err
	}
	var lines []string
	for _, t := range tasks {
		line, err := backlog.PlanLine(backlog.NewTask{
			Slug: t.Slug, Title: t.Title, Description: t.Description, Category: t.Category, Priority: t.Priority,
			SpecRef: t.SpecRef, Ref: t.Ref, Steps: t.Steps, Deps: t.Deps, Done: t.Status == backlog.StatusDone,
		})
		if err != nil {
			return fmt.Errorf("encoding task '%s': %w", t.Slug, err)
		}
		lines = append(lines, termsafe.JSON(line))
	}
	switch {
	case asJSON && len(lines) > 0:
		s.print("[\n" + strings.Join(lines, ",\n") + "\n]\n")
	case asJSON:
		s.print("[]\n")
	case len(lines) > 0:
		s.print(strings.Join(lines, "\n") + "\n")
	}
	return nil
}
