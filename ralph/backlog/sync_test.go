package backlog

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func sync(t *testing.T, s *Store, lines ...string) SyncSummary {
	t.Helper()
	sum, err := s.Sync(t.Context(), strings.NewReader(strings.Join(lines, "\n")))
	assert.NilError(t, err)
	return sum
}

func TestSyncInsertsAndIsStable(t *testing.T) {
	s := newStore(t)
	plan := []string{
		`{"id":"auth/01","t":"Hash passwords","p":0,"cat":"feat","spec":"auth.md","steps":["pick cost","it's \"x\"\n"],"s":"done"}`,
		"", "   ",
		`{"id":"auth/02","t":"Login","d":"D","ref":"R","spec":"auth.md","deps":["auth/03","auth/01","auth/01"]}`,
		`{"id":"auth/03","t":"Later","spec":"auth.md"}`, // no newline at the end
	}
	assert.DeepEqual(t, sync(t, s, plan...), SyncSummary{Inserted: 3})
	first := get(t, s, "auth/01")
	assert.Equal(t, first.Status, StatusOpen)
	assert.Equal(t, first.Priority, 0)
	assert.DeepEqual(t, first.Steps, []string{"pick cost", "it's \"x\"\n"})
	second := get(t, s, "auth/02")
	assert.DeepEqual(t, second.Deps, []string{"auth/01", "auth/03"})
	assert.Equal(t, second.Priority, DefaultPriority)
	assert.DeepEqual(t, sync(t, s, plan...), SyncSummary{})
	assert.DeepEqual(t, get(t, s, "auth/01"), first)
	assert.DeepEqual(t, sync(t, s), SyncSummary{})
}

func TestSyncAndExistingRows(t *testing.T) {
	const line = `{"id":"a","t":"New","spec":"s.md"}`
	for _, tc := range []struct {
		name, sql string
		want      SyncSummary
		row       string // title, status, assignee, deleted
	}{
		{"changed", "", SyncSummary{Updated: 1}, "New|open||0"},
		{"unchanged", "UPDATE tasks SET title = 'New', spec_ref = 's.md'", SyncSummary{}, "New|open||0"},
		{"active stays active", "UPDATE tasks SET status = 'active', assignee = 'x'", SyncSummary{Updated: 1}, "New|active|x|0"},
		{"done is final", "UPDATE tasks SET status = 'done', assignee = 'x'", SyncSummary{Skipped: 1}, "Title of a|done|x|0"},
		{
			"deleted is wanted again", "UPDATE tasks SET status = 'deleted', assignee = 'x', deleted_at = 'then', title = 'New', spec_ref = 's.md'",
			SyncSummary{Updated: 1},
			"New|open||0",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a")
			query(t, s.path, tc.sql)
			assert.DeepEqual(t, sync(t, s, line), tc.want)
			assert.Equal(t, query(t, s.path, "SELECT title, status, assignee, deleted_at IS NOT NULL FROM tasks"), tc.row+"\n")
			tc.want.Updated = 0
			assert.DeepEqual(t, sync(t, s, line), tc.want)
		})
	}
}

func TestSyncDeletesOrphans(t *testing.T) {
	s := newStore(t)
	sync(t, s, `{"id":"a","t":"A","spec":"s.md"}`, `{"id":"b","t":"B","spec":"s.md"}`, `{"id":"d","t":"D","spec":"s.md"}`,
		`{"id":"other","t":"O","spec":"o.md"}`, `{"id":"moved","t":"M","spec":"s.md"}`, `{"id":"free","t":"F"}`)
	claim(t, s, "b", "x")
	claim(t, s, "d", "x")
	assert.NilError(t, s.Done(t.Context(), "d", ""))
	plan := []string{`{"id":"a","t":"A","spec":"s.md"}`, `{"id":"moved","t":"M","spec":"m.md"}`, `{"id":"free2","t":"F"}`}
	assert.DeepEqual(t, sync(t, s, plan...), SyncSummary{Inserted: 1, Updated: 1, Deleted: 1})
	for slug, status := range map[string]string{"a": "open", "b": "deleted", "d": "done", "other": "open", "moved": "open", "free": "open"} {
		assert.Equal(t, get(t, s, slug).Status, status, slug)
	}
	assert.DeepEqual(t, sync(t, s, plan...), SyncSummary{})
}

func TestSyncReplacesDependencies(t *testing.T) {
	s := newStore(t)
	sync(t, s, `{"id":"a","t":"A"}`, `{"id":"b","t":"B"}`, `{"id":"c","t":"C","deps":["a"]}`, `{"id":"d","t":"D","deps":["a"]}`)
	query(t, s.path, "UPDATE tasks SET status = 'done' WHERE slug = 'd'")
	sum := sync(t, s, `{"id":"c","t":"C","deps":["b","missing"]}`, `{"id":"d","t":"D","deps":["b"]}`)
	assert.DeepEqual(t, sum, SyncSummary{Skipped: 1, Unknown: []UnknownDep{{"c", "missing"}}})
	assert.DeepEqual(t, get(t, s, "c").Deps, []string{"b"})
	assert.DeepEqual(t, get(t, s, "d").Deps, []string{"a"})
	sync(t, s, `{"id":"c","t":"C"}`)
	assert.Equal(t, len(get(t, s, "c").Deps), 0)
}

func TestSyncLaterLineWins(t *testing.T) {
	s := newStore(t)
	assert.DeepEqual(t, sync(t, s, `{"id":"a","t":"One"}`, `{"id":"b","t":"B"}`, `{"id":"a","t":"Two","deps":["b"]}`), SyncSummary{Inserted: 2})
	assert.Equal(t, get(t, s, "a").Title, "Two")
	assert.DeepEqual(t, get(t, s, "a").Deps, []string{"b"})
}

func TestSyncRejectsInvalidLines(t *testing.T) {
	long := "{" + strings.Repeat("é", 100)
	for _, tc := range []struct{ line, want string }{
		{`{"id":`, `invalid JSON: {"id":`},
		{`{} {}`, `invalid JSON: {} {}`},
		{long, "invalid JSON: {" + strings.Repeat("é", 79)},
		{`{"t":"x"}`, `field "id" is missing or empty`},
		{`{"ID":"x","t":"x"}`, `field "id" is missing or empty`},
		{`{"id":"","t":"x"}`, `field "id" is missing or empty`},
		{`{"id":null,"t":"x"}`, `field "id" is missing or empty`},
		{`{"id":false,"t":"x"}`, `field "id" is missing or empty`},
		{`null`, `field "id" is missing or empty`},
		{`[{"id":"a","t":"x"}]`, `expected a JSON object, found an array`},
		{`[`, `expected a JSON object, found an array`},
		{`{"id":"a b","t":"x"}`, `task ID 'a b' contains white space`},
		{`"x"`, `field "id" is missing or empty`},
		{`5`, `field "id" is missing or empty`},
		{`{"id":{},"t":"x"}`, `field "id" must be a string, got: {}`},
		{`{"id":"a"}`, `field "t" is missing or empty`},
		{`{"id":"a","t":"x","p":"high"}`, `field "p" must be a non-negative integer, got: "high"`},
		{`{"id":"a","t":"x","p":"1"}`, `field "p" must be a non-negative integer, got: "1"`},
		{`{"id":"a","t":"x","p":-1}`, `field "p" must be a non-negative integer, got: -1`},
		{`{"id":"a","t":"x","p":1.5}`, `field "p" must be a non-negative integer, got: 1.5`},
		{`{"id":"a","t":"x","p":null}`, `field "p" must be a non-negative integer, got: null`},
		{`{"id":"a","t":"x","p":[1, 2]}`, `field "p" must be a non-negative integer, got: [1,2]`},
		{`{"id":"a","t":"x","p":1e99}`, `field "p" must be a non-negative integer, got: 1e99`},
		{`{"id":"a","t":"x","steps":"one"}`, `field "steps" must be an array of strings, got: "one"`},
		{`{"id":"a","t":"x","steps":[{"a":1}]}`, `field "steps" must be an array of strings, got: [{"a":1}]`},
		{`{"id":"a","t":"x","deps":{}}`, `field "deps" must be an array of strings, got: {}`},
	} {
		t.Run(tc.line, func(t *testing.T) {
			s := newStore(t)
			good := `{"id":"good","t":"x","p":1e0}`
			_, err := s.Sync(t.Context(), strings.NewReader(good+"\n\n  \n"+tc.line+"\n"+good+"\n"))
			assert.Error(t, err, "line 2: "+tc.want)
			c, err := s.Counts(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, c, Counts{}, "nothing may be written")
		})
	}
}

func TestSyncAcceptsNumbersAsStrings(t *testing.T) {
	s := newStore(t)
	assert.DeepEqual(t, sync(t, s, `{"id":7,"t":1.50,"d":true,"cat":null,"spec":false,"p":2.0,"steps":[1,null],"deps":null}`), SyncSummary{Inserted: 1})
	task := get(t, s, "7")
	assert.Equal(t, task.Title, "1.50")
	assert.Equal(t, task.Description, "true")
	assert.DeepEqual(t, task.Steps, []string{"1"})
}

// A plan is applied completely or not at all, and a second time changes nothing.
func FuzzSync(f *testing.F) {
	for _, seed := range []string{
		"null", "\n\n", `{"id":"a","t":"b"}`, `{"id":"a","t":"b","deps":["c","b"]}` + "\r\n" + `{"id":"b","t":"c","p":0}`,
		`{"id":"a\u0000","t":"\ud800","spec":"s","steps":["\u2028<&>",""]}`, "{\"id\":\"\xff\",\"t\":\"x\",\"spec\":\"\xfe\"}",
		`{"id":"a","t":"x","p":1e2,"steps":null,"deps":[1]}` + "\n" + `{"id":"a","t":"y","spec":"s"}`, strings.Repeat("[", 50),
		`{"id":"a","t":"b","deps":["a"]}`,
	} {
		f.Add(seed)
	}
	shared, err := Open(f.Context(), filepath.Join(f.TempDir(), ".ralph", "tasks.db"), Scope{})
	assert.NilError(f, err)
	f.Cleanup(func() { assert.NilError(f, shared.Close()) })
	runs := 0
	f.Fuzz(func(t *testing.T, input string) {
		// Opening a database for each input would take longer.
		runs++
		s := &Store{db: shared.db, path: shared.path, wait: shared.wait, scope: Scope{Repo: strconv.Itoa(runs), Branch: "b"}}
		first, err := s.Sync(t.Context(), strings.NewReader(input))
		all, listErr := s.List(t.Context(), Filter{All: true})
		assert.NilError(t, listErr)
		assert.Equal(t, len(all), first.Inserted)
		if err != nil {
			assert.Assert(t, strings.HasPrefix(err.Error(), "line ") || strings.HasPrefix(err.Error(), "dependency cycle: "), "%v", err)
			assert.DeepEqual(t, first, SyncSummary{})
			return
		}
		second, err := s.Sync(t.Context(), strings.NewReader(input))
		assert.NilError(t, err)
		assert.DeepEqual(t, second, SyncSummary{Unknown: first.Unknown})
		again, err := s.List(t.Context(), Filter{All: true})
		assert.NilError(t, err)
		assert.DeepEqual(t, again, all)
	})
}
