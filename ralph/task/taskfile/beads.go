package taskfile

import (
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// isBeads detects the issues of beads.
func isBeads(values []value) bool {
	o := sample(values)
	return o.has("_type") || o.has("id", "title") && (o.has("issue_type") || o.has("status") || o.has("priority"))
}

// readBeads reads the issues of beads: an object per line, or an array.
func readBeads(r *reader, values []value) error {
	list, err := elements(values)
	if err != nil {
		return err
	}
	links := beadLinks{children: map[string][]string{}, dropped: map[string]int{}}
	for _, v := range list {
		if err := r.bead(v, links); err != nil {
			return err
		}
	}
	for i, it := range r.items { // an epic depends on its children
		r.items[i].Deps = append(it.Deps, links.children[it.Slug]...)
	}
	for _, kind := range slices.Sorted(maps.Keys(links.dropped)) {
		r.drop("%d dependencies of type \"%s\"", links.dropped[kind], oneLine(kind))
	}
	return nil
}

// beadLinks are links between issues.
type beadLinks struct {
	children map[string][]string // by parent
	dropped  map[string]int      // numbers of others, by type
}

// bead reads an issue.
func (r *reader) bead(v value, links beadLinks) error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	id := f.str("id")
	if kind := f.str("_type"); kind != "" && kind != "issue" {
		r.drop("line %d: %s %s", v.line, oneLine(kind), named(id))
		return f.err
	}
	if f.err == nil && id == "" {
		return lineError(v.line, "issue without an ID")
	}
	t := backlog.NewTask{Slug: id, Title: f.str("title"), Category: f.str("issue_type", "kind"), Ref: f.str("external_ref")}
	t.Description = joinText(f.text("description", "body"), section("Design", f.text("design")),
		section("Acceptance criteria", f.text("acceptance_criteria", "acceptance")), section("Notes", f.text("notes")))
	t.Priority = r.priority(id, f.str("priority"), backlog.DefaultPriority)
	state := r.status(id, f.str("status"))
	parent := f.str("parent", "parent_id")
	dependencies := f.get("dependencies", "deps")
	for _, bookkeeping := range []string{
		"created_at", "updated_at", "closed_at", "created_by", "close_reason", "content_hash", "source_repo", "compaction_level",
		"original_size", "dependency_count", "dependent_count", "comment_count", "dependents", "owner",
	} {
		f.used[bookkeeping] = true
	}
	if err := f.end(r); err != nil || state == stateDropped {
		return err
	}
	t.Done = state == stateDone
	if parent != "" {
		links.children[parent] = append(links.children[parent], id)
	}
	if t.Deps, err = beadDeps(dependencies, id, links); err != nil {
		return err
	}
	r.add(v.line, t)
	return nil
}

// beadDeps returns the issues that an issue depends on. An element is an ID, or an object with the type of the dependency.
func beadDeps(v value, id string, links beadLinks) (deps []string, err error) {
	list, err := v.array()
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if on, err := e.str(); err == nil {
			deps = append(deps, on)
			continue
		}
		f, err := e.fields()
		if err != nil {
			return nil, err
		}
		on, kind := f.str("depends_on_id", "depends_on", "id"), f.str("type", "dependency_type")
		switch {
		case f.err != nil:
			return nil, f.err
		case kind == "blocks", kind == "":
			deps = append(deps, on)
		case kind == "parent-child":
			links.children[on] = append(links.children[on], id)
		default:
			links.dropped[kind]++
		}
	}
	return deps, nil
}
