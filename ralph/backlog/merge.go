package backlog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MergeSummary is the result of [Store.Merge]. It has the IDs of tasks in the order of the list.
type MergeSummary struct {
	Created, Updated, Unchanged []string
	Kept                        []Kept // tasks and fields that were not overwritten
	Unknown                     []UnknownDep
}

// Kept says why a task, or a field of it, was not overwritten.
type Kept struct{ Task, Reason string }

// errDryRun rolls a merge back.
var errDryRun = errors.New("dry run")

// Merge adds the tasks of another program's list, and applies what has changed in the list since its last merge. What was
// changed, finished or deleted in the backlog since stays, and tasks that are missing from the list stay as well. IDs must
// be unique. A dry run changes nothing.
func (s *Store) Merge(ctx context.Context, list []NewTask, dryRun bool) (MergeSummary, error) {
	for _, t := range list {
		if err := errors.Join(checkSlug(t.Slug), s.checkSize(t)); err != nil {
			return MergeSummary{}, err
		}
	}
	var summary MergeSummary
	err := s.write(ctx, func(tx *sql.Tx) error {
		run := mergeRun{syncRun: syncRun{store: s, tx: tx, plan: slices.Clone(list)}}
		if err := run.all(ctx); err != nil {
			return err
		}
		summary = run.summary
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return summary, err
}

// mergeRun is a merge in one transaction.
type mergeRun struct {
	syncRun
	blockers map[string][]node // by the ID of the row
	summary  MergeSummary
}

func (r *mergeRun) all(ctx context.Context) (err error) {
	if err = r.load(ctx); err != nil {
		return err
	}
	if r.blockers, err = r.store.blockersByTask(ctx, r.tx); err != nil {
		return err
	}
	r.resolveDeps()
	var changed []NewTask // with new dependencies
	for _, t := range r.plan {
		depends, err := r.apply(ctx, t)
		if err != nil {
			return fmt.Errorf("writing task '%s': %w", t.Slug, err)
		}
		if depends != nil {
			changed = append(changed, *depends)
		}
	}
	var ids []string
	for _, t := range changed { // a task can depend on one that comes later
		if err := r.replaceDeps(ctx, t); err != nil {
			return fmt.Errorf("writing the dependencies of task '%s': %w", t.Slug, err)
		}
		ids = append(ids, r.rows[t.Slug].id)
	}
	return r.store.checkCycles(ctx, r.tx, ids...)
}

// resolveDeps drops dependencies on unknown tasks, and sorts the others.
func (r *mergeRun) resolveDeps() {
	listed := map[string]bool{}
	for _, t := range r.plan {
		listed[t.Slug] = true
	}
	for i, t := range r.plan {
		deps := slices.Clone(t.Deps)
		slices.Sort(deps)
		r.plan[i].Deps = slices.DeleteFunc(slices.Compact(deps), func(dep string) bool {
			if _, exists := r.rows[dep]; exists || listed[dep] {
				return false
			}
			r.summary.Unknown = append(r.summary.Unknown, UnknownDep{Task: t.Slug, Dep: dep})
			return true
		})
	}
}

// apply writes a task without its dependencies. It returns the task if these have changed.
func (r *mergeRun) apply(ctx context.Context, theirs NewTask) (depends *NewTask, err error) {
	row, exists := r.rows[theirs.Slug]
	if !exists {
		return &theirs, r.add(ctx, theirs)
	}
	ours := row.now
	ours.Done = row.status == StatusDone
	for _, b := range r.blockers[row.id] {
		ours.Deps = append(ours.Deps, b.Slug)
	}
	slices.Sort(ours.Deps)
	base, err := ParsePlanLine([]byte(cmp.Or(row.imported, "{}"))) // an error without one
	imported := err == nil

	unchanged := imported && same(base, theirs) || row.status == StatusDone && theirs.Done
	if unchanged {
		r.summary.Unchanged = append(r.summary.Unchanged, theirs.Slug)
		return nil, nil
	}
	switch {
	case row.status == StatusDeleted:
		r.keep(theirs.Slug, "was deleted here")
	case row.status == StatusQuestion:
		r.keep(theirs.Slug, "waits for an answer here")
	case row.status != StatusOpen:
		r.keep(theirs.Slug, "is "+row.status+" here")
	case same(ours, theirs):
		r.summary.Unchanged = append(r.summary.Unchanged, theirs.Slug)
		return nil, r.record(ctx, row.id, theirs)
	case !imported:
		r.keep(theirs.Slug, "exists already, and was not imported")
	default:
		return r.update(ctx, row.id, base, ours, theirs)
	}
	return nil, nil
}

func (r *mergeRun) keep(slug, reason string) {
	r.summary.Kept = append(r.summary.Kept, Kept{slug, reason})
}

func (r *mergeRun) add(ctx context.Context, t NewTask) error {
	id, err := r.store.insert(ctx, r.tx, t)
	if err == nil && t.Done {
		err = r.finish(ctx, id)
	}
	if err == nil {
		err = r.record(ctx, id, t)
	}
	r.rows[t.Slug] = syncRow{id: id, status: StatusOpen}
	r.summary.Created = append(r.summary.Created, t.Slug)
	return err
}

// record stores a task as it was imported.
func (r *mergeRun) record(ctx context.Context, id string, t NewTask) error {
	line, err := PlanLine(t)
	if err == nil {
		_, err = r.tx.ExecContext(ctx, "UPDATE tasks SET imported = ? WHERE id = ?", line, id)
	}
	return err
}

// update applies to an open task what has changed from base to theirs, except for fields that differ here as well.
func (r *mergeRun) update(ctx context.Context, id string, base, ours, theirs NewTask) (depends *NewTask, err error) {
	merged, conflicts := mergeFields(base, ours, theirs)
	if len(conflicts) > 0 {
		r.keep(theirs.Slug, "has been changed here, and keeps its "+strings.Join(conflicts, ", "))
	}
	if err := r.record(ctx, id, theirs); err != nil {
		return nil, err
	}
	if same(merged, ours) {
		if len(conflicts) == 0 {
			r.summary.Unchanged = append(r.summary.Unchanged, theirs.Slug)
		}
		return nil, nil
	}
	r.summary.Updated = append(r.summary.Updated, theirs.Slug)
	err = overwrite(ctx, r.tx, id, merged)
	if err == nil && merged.Done {
		err = r.finish(ctx, id)
	}
	if slices.Equal(merged.Deps, ours.Deps) {
		return nil, err
	}
	return &merged, err
}

// mergeFields applies the changes from base to theirs to ours. It returns the names of fields that were changed on both
// sides, and stay as in ours.
func mergeFields(base, ours, theirs NewTask) (merged NewTask, conflicts []string) {
	merged = ours
	merge(&merged.Title, base.Title, theirs.Title, "title", &conflicts)
	merge(&merged.Description, base.Description, theirs.Description, "description", &conflicts)
	merge(&merged.Category, base.Category, theirs.Category, "category", &conflicts)
	merge(&merged.Priority, base.Priority, theirs.Priority, "priority", &conflicts)
	merge(&merged.SpecRef, base.SpecRef, theirs.SpecRef, "spec", &conflicts)
	merge(&merged.Ref, base.Ref, theirs.Ref, "ref", &conflicts)
	merge(&merged.Done, base.Done, theirs.Done, "status", &conflicts)
	mergeList(&merged.Steps, base.Steps, theirs.Steps, "steps", &conflicts)
	mergeList(&merged.Deps, base.Deps, theirs.Deps, "dependencies", &conflicts)
	return merged, conflicts
}

func merge[T comparable](ours *T, base, theirs T, name string, conflicts *[]string) {
	switch {
	case theirs == base || theirs == *ours:
	case *ours == base:
		*ours = theirs
	default:
		*conflicts = append(*conflicts, name)
	}
}

func mergeList(ours *[]string, base, theirs []string, name string, conflicts *[]string) {
	switch {
	case slices.Equal(theirs, base) || slices.Equal(theirs, *ours):
	case slices.Equal(*ours, base):
		*ours = theirs
	default:
		*conflicts = append(*conflicts, name)
	}
}

func same(a, b NewTask) bool {
	return sameFields(a, b) && slices.Equal(a.Deps, b.Deps) && a.Done == b.Done
}
