package backlog

import (
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestCreateStoresEveryField(t *testing.T) {
	s := newStore(t)
	add(t, s, "dep/1", "dep/2")
	steps := []string{`with "quotes"`, "it's", "two\nlines", "<&>", "ünï 🎉"}
	assert.NilError(t, s.Create(t.Context(), NewTask{
		Slug: "it's/a;--", Title: "T", Description: "D", Category: "feat", Priority: 0, SpecRef: "s.md", Ref: "r",
		Steps: steps, Deps: []string{"dep/2", "dep/1", "dep/2"},
	}))
	task := get(t, s, "it's/a;--")
	assert.Assert(t, task.CreatedAt != "" && task.CreatedAt == task.UpdatedAt)
	task.CreatedAt, task.UpdatedAt = "", ""
	assert.DeepEqual(t, task, Task{
		Slug: "it's/a;--", Title: "T", Description: "D", Category: "feat", Status: StatusWaiting, SpecRef: "s.md", Ref: "r",
		Steps: steps, Deps: []string{"dep/1", "dep/2"},
		Blockers: []Blocker{{Slug: "dep/1", Status: StatusOpen}, {Slug: "dep/2", Status: StatusOpen}},
	})
	id := query(t, s.path, "SELECT id FROM tasks WHERE slug LIKE 'it%'")
	assert.Check(t, cmp.Regexp(regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$`), id))
	assert.Equal(t, query(t, s.path, "SELECT steps FROM tasks WHERE slug LIKE 'it%'"),
		`["with \"quotes\"","it's","two\nlines","<&>","ünï 🎉"]`+"\n")
	assert.Equal(t, query(t, s.path, "SELECT description IS NULL AND category IS NULL AND steps IS NULL AND result IS NULL FROM tasks WHERE slug = 'dep/1'"), "1\n")
}

func TestCreateIsAllOrNothing(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	assert.Error(t, s.Create(t.Context(), NewTask{Slug: "a", Title: "t"}), "task 'a' already exists (status: open)")
	assert.Error(t, s.Create(t.Context(), NewTask{Slug: "a b", Title: "t"}), `task ID 'a b' contains white space`)

	err := s.Create(t.Context(), NewTask{Slug: "b", Title: "t", Deps: []string{"a", "missing"}})
	assert.ErrorIs(t, err, ErrNotFound)
	assert.Error(t, err, "blocker task 'missing' not found")
	_, err = s.Show(t.Context(), "b")
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestScopesAreSeparate(t *testing.T) {
	path := dbPath(t)
	one := openStore(t, path, Scope{"acme/shop", "main"})
	two := openStore(t, path, Scope{"acme/shop", "feature/x"})
	add(t, one, "a")
	add(t, two, "a")
	claim(t, one, "a", "me")
	assert.Equal(t, get(t, two, "a").Status, StatusOpen)
	assert.NilError(t, two.Delete(t.Context(), "a"))
	assert.Equal(t, get(t, one, "a").Status, StatusActive)
	add(t, one, "only-one")
	assert.ErrorIs(t, two.Block(t.Context(), "a", "only-one"), ErrNotFound)
	n, err := two.DeleteMatching(t.Context(), DeleteFilter{All: true})
	assert.NilError(t, err)
	assert.Equal(t, n, 0)
}

func TestUpdate(t *testing.T) {
	text := func(s string) *string { return &s }
	three, none := 3, []string(nil)
	for _, tc := range []struct {
		name, before, want, err string
		change                  Changes
	}{
		{
			name: "fields", change: Changes{Title: text("it's"), Description: text(""), Priority: &three, Steps: &[]string{"a"}},
			want: `it's||3|["a"]|open|0|0`,
		},
		{name: "no steps", before: `UPDATE tasks SET steps = '["x"]'`, change: Changes{Steps: &none}, want: "Title of a|NULL|2|NULL|open|0|0"},
		{name: "to active", change: Changes{Status: text("active")}, want: "Title of a|NULL|2|NULL|active|600|0"},
		{
			name: "active keeps its lease", before: "UPDATE tasks SET status = 'active', lease_expires_at = datetime('now', '+42 seconds')",
			change: Changes{Status: text("active")}, want: "Title of a|NULL|2|NULL|active|42|0",
		},
		{name: "to done", change: Changes{Status: text("done")}, want: "Title of a|NULL|2|NULL|done|0|0"},
		{name: "to deleted", change: Changes{Status: text("deleted")}, want: "Title of a|NULL|2|NULL|deleted|0|1"},
		{
			name: "undelete", before: "UPDATE tasks SET status = 'deleted', deleted_at = datetime('now')",
			change: Changes{Status: text("open")}, want: "Title of a|NULL|2|NULL|open|0|0",
		},
		{
			name: "deleted keeps its date", before: "UPDATE tasks SET status = 'deleted', deleted_at = datetime('now')",
			change: Changes{Title: text("T")}, want: "T|NULL|2|NULL|deleted|0|1",
		},
		{
			name: "unknown status", change: Changes{Status: text("paused")}, err: "status must be open, active, done or deleted, got: paused",
			want: "Title of a|NULL|2|NULL|open|0|0",
		},
		{
			name: "done is final", before: "UPDATE tasks SET status = 'done'", change: Changes{Title: text("T")},
			err: "task 'a' is done and cannot be updated", want: "Title of a|NULL|2|NULL|done|0|0",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a")
			query(t, s.path, tc.before)
			err := s.Update(t.Context(), "a", tc.change)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.Error(t, err, tc.err)
			}
			got := query(t, s.path, `SELECT title, coalesce(description, 'NULL'), priority, coalesce(steps, 'NULL'), status,
				coalesce(round((julianday(lease_expires_at) - julianday('now')) * 86400 / 3) * 3, 0), deleted_at IS NOT NULL FROM tasks`)
			got = strings.Replace(strings.TrimSpace(got), ".0|", "|", 1)
			assert.Equal(t, got, tc.want)
		})
	}
	assert.ErrorIs(t, newStore(t).Update(t.Context(), "a", Changes{Title: text("x")}), ErrNotFound)
}

func TestDeleteMatching(t *testing.T) {
	for _, tc := range []struct {
		name   string
		filter DeleteFilter
		want   string
	}{
		{"nothing", DeleteFilter{}, ""},
		{"status", DeleteFilter{Statuses: []string{"open"}}, "a,b"},
		{"statuses", DeleteFilter{Statuses: []string{"open", "done", "odd"}}, "a,b,c"},
		{"blanks match nothing", DeleteFilter{Statuses: []string{" open"}}, ""},
		{"spec", DeleteFilter{All: true, SpecRef: "s.md"}, "b,c"},
		{"spec and status", DeleteFilter{Statuses: []string{"open"}, SpecRef: "s.md"}, "b"},
		{"category", DeleteFilter{All: true, Category: "feat"}, "c"},
		{"all", DeleteFilter{All: true}, "a,b,c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a", "b", "c", "gone")
			query(t, s.path, `UPDATE tasks SET spec_ref = 's.md' WHERE slug <> 'a'; UPDATE tasks SET status = 'done', category = 'feat' WHERE slug = 'c';
				UPDATE tasks SET status = 'deleted', deleted_at = 'then' WHERE slug = 'gone'`)
			n, err := s.DeleteMatching(t.Context(), tc.filter)
			assert.NilError(t, err)
			deleted, err := s.List(t.Context(), Filter{Statuses: []string{"deleted"}})
			assert.NilError(t, err)
			assert.Equal(t, n, len(deleted)-1)
			assert.Equal(t, strings.Join(slugs(deleted[:n]), ","), tc.want)
			assert.Equal(t, get(t, s, "gone").DeletedAt, "then")
		})
	}
}

func TestCounts(t *testing.T) {
	s := newStore(t)
	none, err := s.Counts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, none, Counts{})
	add(t, s, "open", "active", "done", "deleted", "waits", "done-waits")
	query(t, s.path, `UPDATE tasks SET status = slug WHERE slug IN ('active', 'done', 'deleted');
		UPDATE tasks SET status = 'done' WHERE slug = 'done-waits'`)
	assert.NilError(t, s.Block(t.Context(), "waits", "open"))
	assert.NilError(t, s.Block(t.Context(), "done-waits", "open"))
	assert.NilError(t, s.Block(t.Context(), "open", "deleted"))
	c, err := s.Counts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, c, Counts{Open: 1, Active: 1, Done: 2, Blocked: 2, Deleted: 1, Waiting: 1})
}

func TestDeps(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b", "c", "d", "e")
	for _, edge := range []string{"a b", "a c", "b d", "c d", "d e"} {
		task, blocker, _ := strings.Cut(edge, " ")
		for range 2 {
			assert.NilError(t, s.Block(t.Context(), task, blocker))
		}
	}
	// Other programs can write cycles.
	query(t, s.path, "INSERT INTO task_deps SELECT e.id, x.id FROM tasks e, tasks x WHERE e.slug = 'e' AND x.slug IN ('a', 'e')")
	deps, err := s.Deps(t.Context(), "a")
	assert.NilError(t, err)
	var got []string
	for _, d := range deps {
		got = append(got, strings.Repeat(">", d.Depth)+d.Slug)
	}
	assert.DeepEqual(t, got, []string{">b", ">c", ">>d", ">>d", ">>>e", ">>>>a", ">>>>e"})

	assert.NilError(t, s.Unblock(t.Context(), "a", "b"))
	assert.Error(t, s.Unblock(t.Context(), "a", "b"), "dependency not found")
	assert.ErrorIs(t, s.Unblock(t.Context(), "missing", "b"), ErrNotFound)
	assert.Error(t, s.Block(t.Context(), "a", "missing"), "blocker task 'missing' not found")
	_, err = s.Deps(t.Context(), "missing")
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestAgents(t *testing.T) {
	s := newStore(t)
	first, err := s.RegisterAgent(t.Context(), Agent{PID: 11, Hostname: "box"})
	assert.NilError(t, err)
	second, err := s.RegisterAgent(t.Context(), Agent{PID: 12, Hostname: "box"})
	assert.NilError(t, err)
	assert.Check(t, cmp.Regexp("^[0-9a-f]{4}$", first))
	agents, err := s.Agents(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(agents), 2)
	assert.Equal(t, agents[0].ID, second)
	assert.Equal(t, agents[1].PID, 11)
	for range 2 {
		assert.NilError(t, s.DeregisterAgent(t.Context(), first))
	}
	agents, err = s.Agents(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(agents), 1)
	other := openStore(t, s.path, Scope{"acme/shop", "other"})
	assert.Error(t, other.DeregisterAgent(t.Context(), second), "agent '"+second+"' not found")
}

func TestRegisterAgentWithoutAFreeID(t *testing.T) {
	s := newStore(t)
	query(t, s.path, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i < 65535) INSERT INTO agents (id) SELECT printf('%04x', i) FROM n")
	_, err := s.RegisterAgent(t.Context(), Agent{PID: 1, Hostname: "h"})
	assert.Error(t, err, "failed to generate unique agent ID after 10 attempts")
}
