package backlog

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Every change that would make a task wait for itself is refused as a whole, and the error
// names the cycle.
func TestCyclesAreRefused(t *testing.T) {
	syncing := func(lines ...string) func(*testing.T, *Store) error {
		return func(t *testing.T, s *Store) error {
			t.Helper()
			_, err := s.Sync(t.Context(), strings.NewReader(strings.Join(lines, "\n")))
			return err
		}
	}
	rewriting := func(slug string, before, after []string) func(*testing.T, *Store) error {
		return func(t *testing.T, s *Store) error {
			t.Helper()
			old := NewTask{Slug: slug, Title: "Title of " + slug, Priority: DefaultPriority, Deps: before}
			changed := old
			changed.Title, changed.Deps = "New", after
			return s.Rewrite(t.Context(), old, changed)
		}
	}
	open := StatusOpen
	for _, tc := range []struct {
		name   string
		sql    string // on tasks a, b, c, where b depends on a
		change func(*testing.T, *Store) error
		want   string // empty if the change is allowed
	}{
		{"block", "", func(t *testing.T, s *Store) error { return s.Block(t.Context(), "a", "b") }, "a -> b -> a"},
		{"itself", "", func(t *testing.T, s *Store) error { return s.Block(t.Context(), "a", "a") }, "a -> a"},
		{"create", "", func(t *testing.T, s *Store) error {
			return s.Create(t.Context(), NewTask{Slug: "d", Title: "D", Deps: []string{"d"}})
		}, "d -> d"},
		{"edit", "", rewriting("a", nil, []string{"b"}), "a -> b -> a"},
		{"plan", "", syncing(`{"id":"x","t":"X","deps":["z"]}`, `{"id":"y","t":"Y","deps":["x"]}`, `{"id":"z","t":"Z","deps":["y"]}`), "x -> z -> y -> x"},
		{"plan with tasks of the backlog", "", syncing(`{"id":"a","t":"A","deps":["b"]}`), "a -> b -> a"},
		{"plan that turns a dependency round", "", syncing(`{"id":"a","t":"A","deps":["b"]}`, `{"id":"b","t":"B"}`), ""},
		{"through a task that is done", "UPDATE tasks SET status = 'done' WHERE slug = 'b'", func(t *testing.T, s *Store) error { return s.Block(t.Context(), "a", "b") }, ""},
		{"through a question", "UPDATE tasks SET status = 'question' WHERE slug = 'b'", func(t *testing.T, s *Store) error { return s.Block(t.Context(), "a", "b") }, "a -> b -> a"},
		{
			"reopen", "UPDATE tasks SET status = 'done' WHERE slug = 'b'; INSERT INTO task_deps SELECT a.id, b.id FROM tasks a, tasks b WHERE a.slug = 'a' AND b.slug = 'b'",
			func(t *testing.T, s *Store) error { return s.MakeOpen(t.Context(), "b", "") }, "b -> a -> b",
		},
		{
			"undelete", "UPDATE tasks SET status = 'deleted' WHERE slug = 'b'; INSERT INTO task_deps SELECT a.id, b.id FROM tasks a, tasks b WHERE a.slug = 'a' AND b.slug = 'b'",
			func(t *testing.T, s *Store) error { return s.Update(t.Context(), "b", Changes{Status: &open}) }, "b -> a -> b",
		},
		{
			"beside the cycle of another program", "INSERT INTO task_deps SELECT a.id, b.id FROM tasks a, tasks b WHERE a.slug = 'a' AND b.slug = 'b'",
			func(t *testing.T, s *Store) error { return s.Block(t.Context(), "c", "a") }, "",
		},
		{
			"title of a task in the cycle of another program", "INSERT INTO task_deps SELECT a.id, b.id FROM tasks a, tasks b WHERE a.slug = 'a' AND b.slug = 'b'",
			rewriting("a", []string{"b"}, []string{"b"}), "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a", "b", "c")
			assert.NilError(t, s.Block(t.Context(), "b", "a"))
			query(t, s.path, tc.sql)
			const all = "SELECT slug, status, title FROM tasks ORDER BY slug; SELECT count(*) FROM task_deps"
			before := query(t, s.path, all)
			err := tc.change(t, s)
			if tc.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.Error(t, err, "dependency cycle: "+tc.want)
			assert.Equal(t, query(t, s.path, all), before)
		})
	}
}

func TestLongCyclesAreCut(t *testing.T) {
	s := newStore(t)
	_, err := s.Sync(t.Context(), strings.NewReader(bigPlan()))
	assert.NilError(t, err)
	assert.Error(t, s.Block(t.Context(), "p/0", "p/49"),
		"dependency cycle: p/0 -> p/49 -> p/48 -> p/47 -> p/46 -> p/45 -> p/44 -> p/43 -> ... (42 more) -> p/0")
}
