package backlog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
)

func addDep(ctx context.Context, tx *sql.Tx, id, blockerID string) error {
	_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO task_deps (task_id, blocked_by) VALUES (?, ?)", id, blockerID)
	return err
}

func (s *Store) findBlocker(ctx context.Context, tx *sql.Tx, slug string) (id string, err error) {
	id, _, err = s.find(ctx, tx, slug)
	if errors.Is(err, ErrNotFound) {
		err = faultf(ErrNotFound, "blocker task '%s' not found", slug)
	}
	return id, err
}

// Block adds a dependency. It is idempotent. A cycle is an error.
func (s *Store) Block(ctx context.Context, slug, blocker string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			err = s.checkFence(ctx, tx, id, slug)
		}
		if err != nil {
			return err
		}
		blockerID, err := s.findBlocker(ctx, tx, blocker)
		if err != nil {
			return err
		}
		if err := addDep(ctx, tx, id, blockerID); err != nil {
			return err
		}
		return s.checkCycles(ctx, tx, id)
	})
}

// Unblock removes a dependency.
func (s *Store) Unblock(ctx context.Context, slug, blocker string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		id, _, err := s.find(ctx, tx, slug)
		if err == nil {
			err = s.checkFence(ctx, tx, id, slug)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		n, err := affected(ctx, tx, `
			DELETE FROM task_deps
			WHERE task_id IN (SELECT t.id FROM tasks t WHERE `+inScope+` AND t.slug = ?3)
				AND blocked_by IN (SELECT t.id FROM tasks t WHERE `+inScope+` AND t.slug = ?4)`,
			s.args(slug, blocker)...)
		if err == nil && n == 0 {
			return faultf(ErrNotFound, "dependency not found")
		}
		return err
	})
}

// Dep is a direct or indirect blocker of a task.
type Dep struct {
	Depth               int // 1 for direct blockers
	Slug, Status, Title string
}

// Deps returns all direct and indirect blockers of a task, by depth and then
// by slug. A blocker of two tasks is listed twice.
func (s *Store) Deps(ctx context.Context, slug string) ([]Dep, error) {
	var root string
	var graph map[string][]node
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		if root, _, err = s.find(ctx, tx, slug); err != nil {
			return err
		}
		graph, err = s.blockersByTask(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	deps := walk(graph, root)
	slices.SortStableFunc(deps, func(a, b Dep) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.Slug, b.Slug))
	})
	return deps, nil
}

type node struct {
	id string
	Dep
}

func (s *Store) blockersByTask(ctx context.Context, tx *sql.Tx) (map[string][]node, error) {
	graph := map[string][]node{}
	err := each(ctx, tx, `
		SELECT d.task_id, b.id, b.slug, `+shownBlocker+`, b.title
		FROM tasks t JOIN task_deps d ON d.task_id = t.id JOIN tasks b ON b.id = d.blocked_by
		WHERE `+inScope, s.args(), func(rows *sql.Rows) error {
		var parent string
		var n node
		err := rows.Scan(&parent, &n.id, &n.Slug, &n.Status, &n.Title)
		graph[parent] = append(graph[parent], n)
		return err
	})
	return graph, err
}

// walk traverses the graph breadth-first and expands each task once.
func walk(graph map[string][]node, root string) []Dep {
	var deps []Dep
	expanded := map[string]bool{root: true}
	level := []string{root}
	for depth := 1; len(level) > 0; depth++ {
		var next []string
		for _, parent := range level {
			for _, n := range graph[parent] {
				n.Depth = depth
				deps = append(deps, n.Dep)
				if !expanded[n.id] {
					expanded[n.id] = true
					next = append(next, n.id)
				}
			}
		}
		level = next
	}
	return deps
}
