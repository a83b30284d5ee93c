package taskfile

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

var (
	taskID    = lazyregexp.New(`^\**(T\d{3,5})\b\**[:.]?[ \t]*`)
	mark      = lazyregexp.New(`^\[(P|[A-Z]{2,4}-?\d{1,5})\][ \t]*`)
	dependsOn = lazyregexp.New(`(?i)\bdepends on:?\s+(T\d{3,5}(?:[\s,&]+(?:and\s+)?T\d{3,5})*)`)
	idInText  = lazyregexp.New(`T\d{3,5}`)
	feature   = lazyregexp.New(`^\d{3,}-`)
)

// isSpecKit detects a tasks.md of spec-kit by the ID of a task.
func isSpecKit(list []box) bool {
	return slices.ContainsFunc(list, func(b box) bool { return taskID().MatchString(b.text) })
}

// readSpecKit reads a tasks.md of spec-kit. Its phases are in the order of the work: all tasks have the same priority.
func readSpecKit(r *reader, list []box) {
	scope := featureOf(r.Path)
	for _, b := range list {
		id := taskID().FindStringSubmatch(b.text)
		if id == nil {
			r.drop("line %d: check box without a task ID: %s", b.line, oneLine(b.text))
			continue
		}
		t := backlog.NewTask{Slug: scope + id[1], Done: b.done, Priority: backlog.DefaultPriority, SpecRef: r.Spec}
		title := b.text[len(id[0]):]
		for m := mark().FindStringSubmatch(title); m != nil; m = mark().FindStringSubmatch(title) {
			if m[1] == "P" {
				r.ignore("[P]")
			} else {
				t.Category = m[1]
			}
			title = title[len(m[0]):]
		}
		t.Title = plain(title)
		t.Description = joinText(dedent(b.details), phase(b.headings))
		for _, m := range dependsOn().FindAllStringSubmatch(title+"\n"+t.Description, -1) {
			for _, dep := range idInText().FindAllString(strings.ToUpper(m[1]), -1) {
				t.Deps = append(t.Deps, scope+dep)
			}
		}
		r.add(b.line, t)
	}
}

// phase returns the outermost heading below the title.
func phase(headings []string) string {
	for _, h := range headings[1:] {
		if h != "" {
			return plain(h)
		}
	}
	return ""
}

// featureOf returns the name of the feature of a tasks.md, which is that of its directory, with a slash.
func featureOf(file string) string {
	dir := path.Dir(filepath.ToSlash(file))
	if name := path.Base(dir); feature().MatchString(name) || path.Base(path.Dir(dir)) == "specs" {
		return name + "/"
	}
	return ""
}
