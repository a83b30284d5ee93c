package taskfile

import "github.com/docker-ralph/docker-ralph/ralph/backlog"

// storyLists are the names of the list of stories in a prd.json.
func storyLists() []string {
	return []string{"userStories", "user_stories", "stories", "features", "requirements", "items", "tasks"}
}

// stories returns the list of stories of a prd.json, and the fields beside it.
func stories(values []value) (list value, beside object, ok bool) {
	if len(values) != 1 {
		return value{}, nil, false
	}
	if values[0].isArray() {
		return values[0], nil, true
	}
	o, err := values[0].object()
	if err != nil {
		return value{}, nil, false
	}
	for _, name := range storyLists() {
		if v := o[name]; v.isArray() {
			delete(o, name)
			return v, o, true
		}
	}
	return value{}, nil, false
}

// isPRD detects a prd.json: stories that pass or do not, or a list with the name of stories.
func isPRD(values []value) bool {
	list, _, ok := stories(values)
	if !ok {
		return false
	}
	story := sample([]value{list})
	if story.has("passes") || story.has("acceptanceCriteria") || story.has("acceptance_criteria") {
		return true
	}
	o := sample(values)
	return !values[0].isArray() && !o["tasks"].isArray()
}

// readPRD reads a prd.json.
func readPRD(r *reader, values []value) error {
	all, beside, ok := stories(values)
	if !ok {
		return lineError(1, "no user stories")
	}
	for name := range beside {
		r.ignore(oneLine(name))
	}
	list, err := all.array()
	if err != nil {
		return err
	}
	for _, v := range list {
		f, err := v.fields()
		if err != nil {
			return err
		}
		id := f.str("id")
		t := backlog.NewTask{
			Slug: id, Title: f.str("title", "name"), Category: f.str("category"), Description: f.text("description"),
			Steps: f.strs("acceptanceCriteria", "acceptance_criteria", "criteria", "steps"),
			Deps:  f.strs("dependsOn", "depends_on", "dependencies", "deps", "blockedBy", "blocked_by"),
			Done:  f.boolean("passes"),
		}
		t.Description = joinText(t.Description, section("Notes", f.text("notes")))
		t.Priority = r.priority(id, f.str("priority"), backlog.DefaultPriority)
		status := r.status(id, f.str("status"))
		if err := f.end(r); err != nil {
			return err
		}
		if status == stateDropped {
			continue
		}
		t.Done = t.Done || status == stateDone
		r.add(v.line, t)
	}
	return nil
}
