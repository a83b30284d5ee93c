package backlog

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// list parses lines of a plan.
func list(t *testing.T, lines ...string) []NewTask {
	t.Helper()
	plan, err := parsePlan(strings.NewReader(strings.Join(lines, "\n")))
	assert.NilError(t, err)
	return plan
}

// mergeAll merges lines of a plan.
func mergeAll(t *testing.T, s *Store, lines ...string) MergeSummary {
	t.Helper()
	sum, err := s.Merge(t.Context(), list(t, lines...), false)
	assert.NilError(t, err)
	return sum
}

func TestMergeCreatesAndIsIdempotent(t *testing.T) {
	s := newStore(t)
	lines := []string{
		`{"id":"b","t":"B","p":1,"d":"D","cat":"c","spec":"s.md","ref":"r","steps":["one"],"deps":["a","x","a"]}`,
		`{"id":"a","t":"A","status":"done"}`,
		`{"id":"c","t":"C","deps":["b"]}`,
	}
	unknown := []UnknownDep{{"b", "x"}}
	assert.DeepEqual(t, mergeAll(t, s, lines...), MergeSummary{Created: []string{"b", "a", "c"}, Unknown: unknown})
	b := get(t, s, "b")
	assert.DeepEqual(t, b.Deps, []string{"a"})
	assert.DeepEqual(t, []any{b.Title, b.Priority, b.Description, b.Category, b.SpecRef, b.Ref, b.Steps[0]}, []any{"B", 1, "D", "c", "s.md", "r", "one"})
	a := get(t, s, "a")
	assert.Equal(t, a.Status, StatusDone)
	assert.Equal(t, a.Result, `{"note":"imported as done"}`)
	before := query(t, s.path, "SELECT * FROM tasks; SELECT * FROM task_deps")
	assert.DeepEqual(t, mergeAll(t, s, lines...), MergeSummary{Unchanged: []string{"b", "a", "c"}, Unknown: unknown})
	assert.Equal(t, query(t, s.path, "SELECT * FROM tasks; SELECT * FROM task_deps"), before)
}

func TestMergeKeepsTheOrderOfTheList(t *testing.T) {
	s := newStore(t)
	mergeAll(t, s, `{"id":"c","t":"C"}`, `{"id":"a","t":"A"}`, `{"id":"first","t":"F","p":0}`, `{"id":"b","t":"B"}`)
	tasks, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	assert.DeepEqual(t, slugs(tasks), []string{"first", "c", "a", "b"})
}

// What has changed in the list is applied, what has changed here stays, and what has changed on both sides is reported once.
func TestMergeIsThreeWay(t *testing.T) {
	const imported = `{"id":"a","t":"A","d":"D","p":2,"steps":["one"],"deps":["x"]}`
	const x, y = `{"id":"x","t":"X"}`, `{"id":"y","t":"Y"}`
	for _, tc := range []struct {
		name, sql string // what happens here
		line      string // the task in the list, later
		want      string // of the summary: updated, unchanged, or the reason for keeping it
		row       string // title, description, priority, status, steps
	}{
		{"nothing", "", imported, "unchanged", `A|D|2|open|["one"]`},
		{"changed here", "UPDATE tasks SET title = 'Mine' WHERE slug = 'a'", imported, "unchanged", `Mine|D|2|open|["one"]`},
		{"changed there", "", `{"id":"a","t":"New","p":0,"steps":["two"],"deps":["x"]}`, "updated", `New||0|open|["two"]`},
		{"other fields", "UPDATE tasks SET priority = 0 WHERE slug = 'a'", `{"id":"a","t":"A","d":"New","steps":["one"],"deps":["x"]}`, "updated", `A|New|0|open|["one"]`},
		{"done there", "UPDATE tasks SET title = 'Mine', failures = 3, fail_reason = 'no' WHERE slug = 'a'", `{"id":"a","t":"A","d":"D","steps":["one"],"deps":["x"],"status":"done"}`, "updated", `Mine|D|2|done|["one"]`},
		{"the same on both sides", "UPDATE tasks SET title = 'New' WHERE slug = 'a'", `{"id":"a","t":"New","d":"D","steps":["one"],"deps":["x"]}`, "unchanged", `New|D|2|open|["one"]`},
		{"conflict", "UPDATE tasks SET title = 'Mine', steps = '[]' WHERE slug = 'a'", `{"id":"a","t":"New","d":"D","steps":["two"],"deps":["x"]}`, "has been changed here, and keeps its title, steps", `Mine|D|2|open|[]`},
		{"done on both sides", "UPDATE tasks SET status = 'done' WHERE slug = 'a'", `{"id":"a","t":"New","status":"done"}`, "unchanged", `A|D|2|done|["one"]`},
		{"done here", "UPDATE tasks SET status = 'done' WHERE slug = 'a'", `{"id":"a","t":"New"}`, "is done here", `A|D|2|done|["one"]`},
		{"active here", "UPDATE tasks SET status = 'active' WHERE slug = 'a'", `{"id":"a","t":"New","status":"done"}`, "is active here", `A|D|2|active|["one"]`},
		{"question here", "UPDATE tasks SET status = 'question' WHERE slug = 'a'", `{"id":"a","t":"New"}`, "waits for an answer here", `A|D|2|question|["one"]`},
		{"deleted here", "UPDATE tasks SET status = 'deleted' WHERE slug = 'a'", `{"id":"a","t":"New"}`, "was deleted here", `A|D|2|deleted|["one"]`},
		{"still deleted", "UPDATE tasks SET status = 'deleted' WHERE slug = 'a'", imported, "unchanged", `A|D|2|deleted|["one"]`},
		{"not imported", "UPDATE tasks SET imported = NULL WHERE slug = 'a'", `{"id":"a","t":"New"}`, "exists already, and was not imported", `A|D|2|open|["one"]`},
		{"another program's text", "UPDATE tasks SET imported = '[]' WHERE slug = 'a'", `{"id":"a","t":"New"}`, "exists already, and was not imported", `A|D|2|open|["one"]`},
		{"not imported, the same", "UPDATE tasks SET imported = NULL WHERE slug = 'a'", imported, "unchanged", `A|D|2|open|["one"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			mergeAll(t, s, imported, x, y)
			query(t, s.path, tc.sql)
			sum := mergeAll(t, s, tc.line, x)
			want := MergeSummary{Unchanged: []string{"x"}}
			switch tc.want {
			case "unchanged":
				want.Unchanged = []string{"a", "x"}
			case "updated":
				want.Updated = []string{"a"}
			default:
				want.Kept = []Kept{{"a", tc.want}}
			}
			assert.DeepEqual(t, sum, want)
			const row = "SELECT title, coalesce(description, ''), priority, status, steps FROM tasks WHERE slug = 'a'"
			assert.Equal(t, query(t, s.path, row), tc.row+"\n")
			if strings.HasPrefix(tc.want, "has been changed") {
				assert.DeepEqual(t, mergeAll(t, s, tc.line, x), MergeSummary{Unchanged: []string{"a", "x"}})
			}
			assert.Equal(t, get(t, s, "y").Status, StatusOpen) // it is missing from the list
		})
	}
}

func TestMergeOfDoneTasksDiscardsTheReason(t *testing.T) {
	s := newStore(t)
	mergeAll(t, s, `{"id":"a","t":"A"}`)
	query(t, s.path, "UPDATE tasks SET fail_reason = 'no', failures = 3")
	mergeAll(t, s, `{"id":"a","t":"A","status":"done"}`)
	a := get(t, s, "a")
	assert.Equal(t, a.Status+a.FailReason, "done")
}

func TestMergeOfDependencies(t *testing.T) {
	s := newStore(t)
	add(t, s, "here")
	mergeAll(t, s, `{"id":"a","t":"A","deps":["b"]}`, `{"id":"b","t":"B","deps":["here"]}`)
	assert.DeepEqual(t, get(t, s, "b").Deps, []string{"here"})
	mergeAll(t, s, `{"id":"a","t":"A","deps":["c","b"]}`, `{"id":"b","t":"B"}`, `{"id":"c","t":"C"}`)
	assert.DeepEqual(t, get(t, s, "a").Deps, []string{"b", "c"})
	assert.Equal(t, len(get(t, s, "b").Deps), 0)
	// One that the user has added stays.
	assert.NilError(t, s.Block(t.Context(), "c", "here"))
	sum := mergeAll(t, s, `{"id":"c","t":"C","deps":["b"]}`, `{"id":"b","t":"B"}`)
	assert.DeepEqual(t, sum.Kept, []Kept{{"c", "has been changed here, and keeps its dependencies"}})
	assert.DeepEqual(t, get(t, s, "c").Deps, []string{"here"})
}

// A cycle through a dependency that was added here is an error, and nothing is merged.
func TestMergeRefusesCycles(t *testing.T) {
	s := newStore(t)
	mergeAll(t, s, `{"id":"a","t":"A"}`, `{"id":"b","t":"B"}`)
	assert.NilError(t, s.Block(t.Context(), "a", "b"))
	_, err := s.Merge(t.Context(), list(t, `{"id":"b","t":"New","deps":["a"]}`), false)
	assert.Error(t, err, "dependency cycle: b -> a -> b")
	assert.Equal(t, get(t, s, "b").Title, "B")
}

func TestMergeDryRunChangesNothing(t *testing.T) {
	s := newStore(t)
	mergeAll(t, s, `{"id":"a","t":"A"}`)
	before := query(t, s.path, "SELECT * FROM tasks")
	sum, err := s.Merge(t.Context(), list(t, `{"id":"a","t":"New","status":"done"}`, `{"id":"b","t":"B"}`), true)
	assert.NilError(t, err)
	assert.DeepEqual(t, sum, MergeSummary{Created: []string{"b"}, Updated: []string{"a"}})
	assert.Equal(t, query(t, s.path, "SELECT * FROM tasks"), before)
}

func TestMergeRefusesWhiteSpaceInIDs(t *testing.T) {
	s := newStore(t)
	_, err := s.Merge(t.Context(), []NewTask{{Slug: "a", Title: "A"}, {Slug: "b c", Title: "B"}}, false)
	assert.Error(t, err, "task ID 'b c' contains white space")
	tasks, err := s.List(t.Context(), Filter{All: true})
	assert.NilError(t, err)
	assert.Check(t, cmp.Len(tasks, 0))
}

func TestPlanLineIsReadBack(t *testing.T) {
	for _, want := range []NewTask{
		{Slug: "a", Title: "A", Priority: DefaultPriority},
		{Slug: "a/1", Title: "<A> & \"B\"\u2028", Description: "one\ntwo", Category: "c", SpecRef: "s.md", Ref: "r", Steps: []string{"1"}, Deps: []string{"b"}, Done: true},
	} {
		line, err := PlanLine(want)
		assert.NilError(t, err)
		got, err := ParsePlanLine([]byte(line))
		assert.NilError(t, err)
		assert.DeepEqual(t, got, want)
	}
}
