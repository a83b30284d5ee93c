package taskfile

import (
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// masterTag is the default tag.
const masterTag = "master"

// isTaskMaster detects the tasks.json of Task Master.
func isTaskMaster(values []value) bool {
	lists, err := taskLists(values)
	return err == nil && len(lists) > 0
}

// taskList is the list of a tag.
type taskList struct {
	tag   string
	tasks value
}

// taskLists returns the lists of the tags. An older file has one without a tag.
func taskLists(values []value) ([]taskList, error) {
	if len(values) != 1 {
		return nil, nil
	}
	tags, err := values[0].object()
	if err != nil {
		return nil, err
	}
	if v := tags["tasks"]; v.isArray() {
		return []taskList{{masterTag, v}}, nil
	}
	var lists []taskList
	for tag, v := range tags {
		if members, err := v.object(); err == nil && members["tasks"].isArray() {
			lists = append(lists, taskList{tag, members["tasks"]})
		}
	}
	slices.SortFunc(lists, func(a, b taskList) int { return strings.Compare(a.tag, b.tag) })
	return lists, nil
}

// readTaskMaster reads a tasks.json. The IDs of another tag than the default begin with it.
func readTaskMaster(r *reader, values []value) error {
	lists, err := taskLists(values)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return lineError(1, "no tasks")
	}
	for _, l := range lists {
		scope := taskMaster{reader: r}
		if l.tag != masterTag {
			scope.prefix, scope.category = l.tag+"/", l.tag
		}
		tasks, err := l.tasks.array()
		if err != nil {
			return err
		}
		for _, v := range tasks {
			if err := scope.task(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// taskMaster reads the tasks of a tag.
type taskMaster struct {
	*reader
	prefix, category string
}

// task reads a task and its subtasks. It depends on them, and they depend on what it depends on.
func (m taskMaster) task(v value) error {
	t, f, err := m.parse(v, "", backlog.DefaultPriority)
	if err != nil {
		return err
	}
	for _, dep := range f.strs("dependencies") {
		t.Deps = append(t.Deps, m.prefix+dep)
	}
	subtasks, err := f.get("subtasks").array()
	f.check(err)
	state := m.status(t.Slug, f.str("status"))
	if err := f.end(m.reader); err != nil {
		return err
	}
	if state == stateDropped {
		return nil
	}
	t.Done = state == stateDone
	shared := slices.Clone(t.Deps)
	at := len(m.items)
	ids := map[string]bool{}
	for _, s := range subtasks {
		if o, err := s.object(); err == nil {
			id, _ := o["id"].str() // an error is reported below
			ids[id] = true
		}
	}
	for _, s := range subtasks {
		id, err := m.subtask(s, t, shared, ids)
		if err != nil {
			return err
		}
		if id != "" {
			t.Deps = append(t.Deps, id)
		}
	}
	m.items = slices.Insert(m.items, at, item{t, v.line})
	return nil
}

// subtask reads a subtask and returns its ID, or nothing if it is not to be done.
func (m taskMaster) subtask(v value, parent backlog.NewTask, shared []string, siblings map[string]bool) (string, error) {
	t, f, err := m.parse(v, parent.Slug+".", parent.Priority)
	if err != nil {
		return "", err
	}
	for _, dep := range f.strs("dependencies") {
		if siblings[dep] { // others are IDs of the whole list
			dep = parent.Slug + "." + dep
		} else {
			dep = m.prefix + dep
		}
		t.Deps = append(t.Deps, dep)
	}
	f.used["parentTaskId"], f.used["parentId"] = true, true
	state := m.status(t.Slug, f.str("status"))
	if err := f.end(m.reader); err != nil || state == stateDropped {
		return "", err
	}
	t.Done = state == stateDone
	t.Deps = append(t.Deps, shared...)
	t.Description = joinText(t.Description, "Part of "+oneLine(parent.Slug+": "+parent.Title))
	m.add(v.line, t)
	return t.Slug, nil
}

// parse reads what tasks and subtasks have in common.
func (m taskMaster) parse(v value, before string, priority int) (backlog.NewTask, *fields, error) {
	f, err := v.fields()
	if err != nil {
		return backlog.NewTask{}, nil, err
	}
	id := f.str("id")
	if f.err == nil && id == "" {
		return backlog.NewTask{}, nil, lineError(v.line, "task without an ID")
	}
	if before == "" {
		before = m.prefix
	}
	// The tag is part of the ID of the parent.
	t := backlog.NewTask{Slug: before + id, Title: f.str("title"), Category: m.category}
	t.Description = joinText(f.text("description"), f.text("details"), section("Test strategy", f.text("testStrategy")))
	t.Priority = m.priority(t.Slug, f.str("priority"), priority)
	return t, f, f.err
}
