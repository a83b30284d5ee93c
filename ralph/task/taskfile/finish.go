package taskfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// titleLength bounds a title, in characters. The description has the whole of a longer one.
	titleLength = 120
	// textIDLength bounds an ID that is made of a text, in bytes.
	textIDLength = 48
)

// finish returns the tasks, without duplicates and cycles.
func (r *reader) finish() ([]backlog.NewTask, error) {
	if len(r.items) > maxTasks {
		return nil, tooManyTasks()
	}
	var tasks []backlog.NewTask
	lines, deps := map[string]int{}, 0
	for _, it := range r.items {
		t, err := r.clean(it)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", it.line, err)
		}
		if first, duplicate := lines[t.Slug]; duplicate {
			r.drop("line %d: task '%s' is in line %d already", it.line, t.Slug, first)
			continue
		}
		lines[t.Slug] = it.line
		if deps += len(t.Deps); deps > maxDeps {
			return nil, fmt.Errorf("more than %d dependencies", maxDeps)
		}
		tasks = append(tasks, t)
	}
	r.dropCycles(tasks)
	return tasks, nil
}

// clean returns the task of an item as the backlog stores it.
func (r *reader) clean(it item) (backlog.NewTask, error) {
	t := it.NewTask
	title := t.Title
	t.Title, t.Description = titled(title, t.Description)
	if t.Title == "" {
		return t, fmt.Errorf("task %s has neither a title nor a description", named(t.Slug))
	}
	t.Category, t.Ref = oneLine(t.Category), oneLine(t.Ref)
	var steps []string
	for _, step := range t.Steps {
		if step = strings.TrimSpace(termsafe.Strip(step)); step != "" {
			steps = append(steps, step)
		}
	}
	t.Steps = steps
	if oneLine(t.Slug) == "" {
		t.Slug = r.textID(cmp.Or(oneLine(title), t.Title))
	}
	t.Slug = r.id(t.Slug)
	size := len(t.Title) + len(t.Description) + len(t.Category) + len(t.Ref)
	for _, step := range t.Steps {
		size += len(step)
	}
	switch {
	case size > maxText:
		return t, fmt.Errorf("task '%s' is larger than %d KiB", t.Slug, maxText>>10)
	case len(t.Slug) > maxID:
		return t, fmt.Errorf("task ID '%s' is longer than %d bytes", termsafe.Shorten(t.Slug, titleLength), maxID)
	}
	var deps []string
	for _, dep := range t.Deps {
		if dep = r.id(dep); dep != "" && len(dep) <= maxID {
			deps = append(deps, dep)
		}
	}
	slices.Sort(deps)
	t.Deps = slices.Compact(deps)
	return t, nil
}

func named(id string) string {
	if id == "" {
		return "without an ID"
	}
	return "'" + oneLine(id) + "'"
}

func oneLine(text string) string { return strings.Join(strings.Fields(termsafe.Strip(text)), " ") }

// id returns the ID of a task in the backlog: without white space, and with the prefix.
func (r *reader) id(id string) string {
	if id = strings.Join(strings.Fields(termsafe.Strip(id)), "-"); id == "" {
		return ""
	}
	return r.Prefix + id
}

// textID returns an ID for a task that has only a text. The same text has another ID each time.
func (r *reader) textID(text string) string {
	id := slug(text)
	r.numbers[id]++
	if n := r.numbers[id]; n > 1 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return id
}

// titled returns the title of a task, in one line, and its description. The title of a task that has none is the first
// line of its description, and the description of one with a long title begins with all of it.
func titled(title, description string) (string, string) {
	whole := oneLine(title)
	description = strings.TrimSpace(termsafe.Strip(description))
	if whole == "" {
		first, rest, _ := strings.Cut(description, "\n")
		whole, description = oneLine(first), strings.TrimSpace(rest)
	}
	short := termsafe.Shorten(whole, titleLength)
	if short != whole {
		description = joinText(whole, description)
	}
	return short, description
}

// slug returns a text in lower case, with hyphens for what is neither a letter nor a digit. A hash replaces the rest of a
// long text.
func slug(text string) string {
	text = oneLine(text)
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
	id := ""
	for i, word := range words {
		if len(id)+1+len(word) > textIDLength {
			break
		}
		if i > 0 {
			id += "-"
		}
		id += word
	}
	if id == "" || len(id) < len(strings.Join(words, "-")) {
		sum := sha256.Sum256([]byte(text))
		id = strings.TrimPrefix(id+"-", "-") + hex.EncodeToString(sum[:4])
	}
	return id
}

// joinText joins paragraphs that are not empty.
func joinText(parts ...string) string {
	var all []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return strings.Join(all, "\n\n")
}

// section returns a text below a heading, or nothing without a text.
func section(heading, text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return heading + ":\n" + strings.TrimSpace(text)
}

// dropCycles drops dependencies with which a task would depend on itself.
func (r *reader) dropCycles(tasks []backlog.NewTask) {
	at := map[string]int{}
	for i, t := range tasks {
		at[t.Slug] = i
	}
	const onPath, visited = 1, 2
	state := make([]int, len(tasks))
	var visit func(i int)
	visit = func(i int) {
		state[i] = onPath
		tasks[i].Deps = slices.DeleteFunc(tasks[i].Deps, func(dep string) bool {
			next, listed := at[dep]
			switch {
			case !listed:
				return false
			case state[next] == onPath:
				r.drop("task '%s' depends on '%s', which depends on it; dependency ignored", tasks[i].Slug, dep)
				return true
			case state[next] != visited:
				visit(next)
			}
			return false
		})
		state[i] = visited
	}
	for i := range tasks {
		if state[i] != visited {
			visit(i)
		}
	}
}
