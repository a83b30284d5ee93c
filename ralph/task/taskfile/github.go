package taskfile

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// isGitHub detects the output of "gh issue list --json number,title,…".
func isGitHub(values []value) bool { return sample(values).has("number", "title") }

// readGitHub reads the output of "gh issue list --json number,title,body,labels,state".
func readGitHub(r *reader, values []value) error {
	list, err := elements(values)
	if err != nil {
		return err
	}
	for _, v := range list {
		f, err := v.fields()
		if err != nil {
			return err
		}
		number := f.str("number")
		if f.err == nil && number == "" {
			return lineError(v.line, "issue without a number")
		}
		t := backlog.NewTask{
			Slug: "gh-" + number, Title: f.str("title"), Description: f.str("body"), Ref: f.str("url"), Priority: backlog.DefaultPriority,
		}
		if t.Ref == "" {
			t.Ref = "#" + number
		}
		f.check(label(&t, f.get("labels")))
		reason := f.str("stateReason")
		state := r.status(t.Slug, f.str("state"))
		if strings.EqualFold(reason, "not_planned") || strings.EqualFold(reason, "duplicate") {
			state = r.status(t.Slug, reason)
		}
		if err := f.end(r); err != nil {
			return err
		}
		if state == stateDropped {
			continue
		}
		t.Done = state == stateDone
		r.add(v.line, t)
	}
	return nil
}

// label sets the priority of a task by its labels, and the category to the first label that is none.
func label(t *backlog.NewTask, v value) error {
	labels, err := v.array()
	if err != nil {
		return err
	}
	for _, l := range labels {
		name, err := l.str()
		if err != nil {
			f, err := l.fields()
			if err != nil {
				return err
			}
			if name = f.str("name"); f.err != nil {
				return f.err
			}
		}
		if n, ok := labelPriority(name); ok {
			t.Priority = n
		} else if t.Category == "" {
			t.Category = name
		}
	}
	return nil
}

// labelPriority returns the priority of a label such as "P1", "priority: high", "high priority" or "critical".
func labelPriority(name string) (int, bool) {
	name = strings.ToLower(name)
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" :/-_", r) })
	says := false // that it is a priority
	var others []string
	for _, word := range words {
		switch word {
		case "priority", "prio":
			says = true
		default:
			others = append(others, word)
		}
	}
	if len(others) != 1 {
		return 0, false
	}
	word := others[0]
	if !says && (len(word) != 2 || word[0] != 'p') && word != "critical" && word != "urgent" {
		return 0, false
	}
	return parsePriority(word)
}
