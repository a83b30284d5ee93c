package backlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// checkCycles returns an error if one of the tasks, by id, depends on itself through
// unfinished tasks: no agent could ever claim it. Done and deleted tasks block nothing.
// Cycles without any of the tasks are ignored; another program may have made them.
func (s *Store) checkCycles(ctx context.Context, tx *sql.Tx, ids ...string) error {
	graph := cycleSearch{changed: map[string]bool{}, slugs: map[string]string{}, blockers: map[string][]string{}, state: map[string]visit{}}
	for _, id := range ids {
		graph.changed[id] = true
	}
	err := each(ctx, tx, `
		SELECT t.id, t.slug, b.id, b.slug
		FROM tasks t JOIN task_deps d ON d.task_id = t.id JOIN tasks b ON b.id = d.blocked_by
		WHERE `+inScope+` AND t.status NOT IN ('done', 'deleted') AND b.status NOT IN ('done', 'deleted')
		ORDER BY t.slug, b.slug`, s.args(), func(rows *sql.Rows) error {
		var id, slug, blocker, blockerSlug string
		err := rows.Scan(&id, &slug, &blocker, &blockerSlug)
		graph.slugs[id], graph.slugs[blocker] = slug, blockerSlug
		graph.blockers[id] = append(graph.blockers[id], blocker)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if cycle := graph.from(id); cycle != nil {
			return hint.Wrap(fmt.Errorf("dependency cycle: %s", cycleText(cycle)), "remove one of these dependencies")
		}
	}
	return nil
}

// cycleShown is how many tasks of a cycle an error names.
const cycleShown = 8

func cycleText(slugs []string) string {
	if more := len(slugs) - 1 - cycleShown; more > 0 {
		slugs = append(slices.Clone(slugs[:cycleShown]), fmt.Sprintf("... (%d more)", more), slugs[0])
	}
	return strings.Join(slugs, " -> ")
}

// visit is the state of a task in a depth-first search.
type visit int

const (
	unvisited visit = iota
	onPath
	visited
)

// cycleSearch searches the graph of dependencies for cycles.
type cycleSearch struct {
	changed  map[string]bool
	slugs    map[string]string
	blockers map[string][]string
	state    map[string]visit
	path     []string
}

// from returns the slugs of a cycle with a changed task, if one can be reached.
func (g *cycleSearch) from(id string) []string {
	switch g.state[id] {
	case visited:
		return nil
	case onPath:
		return g.closed(g.path[slices.Index(g.path, id):])
	case unvisited:
	}
	g.state[id] = onPath
	g.path = append(g.path, id)
	for _, blocker := range g.blockers[id] {
		if cycle := g.from(blocker); cycle != nil {
			return cycle
		}
	}
	g.path = g.path[:len(g.path)-1]
	g.state[id] = visited
	return nil
}

// closed returns the slugs of a cycle, the first one again at the end.
func (g *cycleSearch) closed(ids []string) []string {
	if !slices.ContainsFunc(ids, func(id string) bool { return g.changed[id] }) {
		return nil
	}
	var slugs []string
	for _, id := range ids {
		slugs = append(slugs, g.slugs[id])
	}
	return append(slugs, slugs[0])
}
