package backlog

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// finish has an agent finish tasks.
func finish(t *testing.T, s *Store, agent string, slugs ...string) {
	t.Helper()
	for _, slug := range slugs {
		claim(t, s, slug, agent)
		assert.NilError(t, s.As(agent).Finish(t.Context(), slug, `{"commit":"1"}`))
		assert.Equal(t, get(t, s, slug).Status, StatusFinished)
	}
}

func TestAcceptMakesFinishedTasksDone(t *testing.T) {
	ctx := t.Context()
	path := dbPath(t)
	s := openStore(t, path, testScope())
	add(t, s, "a", "b", "active", "reopened", "others", "left")
	finish(t, s, "3c9e", "a", "b", "reopened", "left")
	finish(t, s, "beef", "others")
	claim(t, s, "active", "3c9e")
	assert.NilError(t, s.MakeOpen(ctx, "reopened", "not like this"))

	receipts := map[string]Receipt{"none": {}}
	for _, slug := range []string{"a", "b", "active", "reopened", "others"} {
		receipts[slug] = Receipt{Commit: "c0ffee", Checks: []runlog.Check{{Command: "make test", Seconds: 2}}}
	}
	accepted, err := s.Accept(ctx, "3c9e", receipts)
	assert.NilError(t, err)
	assert.Equal(t, len(accepted), 2)
	for i, slug := range []string{"a", "b"} {
		task := get(t, s, slug)
		assert.Equal(t, task.Status, StatusDone)
		assert.Equal(t, task.Result, `{"commit":"1"}`)
		assert.Equal(t, task.Assignee, "3c9e")
		assert.Assert(t, time.Since(accepted[i].Time) < time.Hour)
		want := Receipt{Task: slug, Attempt: 1, Time: accepted[i].Time, Commit: "c0ffee", Checks: receipts[slug].Checks}
		assert.DeepEqual(t, accepted[i], want)
		assert.DeepEqual(t, task.Receipt, &want)
	}
	for slug, status := range map[string]string{
		"active": StatusActive, "reopened": StatusOpen, "others": StatusFinished, "left": StatusFinished,
	} {
		task := get(t, s, slug)
		assert.Equal(t, task.Status, status, slug)
		assert.Assert(t, task.Receipt == nil, slug)
	}
	accepted, err = s.Accept(ctx, "3c9e", receipts)
	assert.NilError(t, err)
	assert.Equal(t, len(accepted), 0)
}

// A task that the user has finished after it was opened again has no receipt for that.
func TestAcceptedTasks(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "a", "b", "reopened", "again", "users")
	none, err := s.Accepted(ctx)
	assert.NilError(t, err)
	assert.Equal(t, len(none), 0)

	finish(t, s, "3c9e", "b", "reopened", "again")
	_, err = s.Accept(ctx, "3c9e", map[string]Receipt{"b": {Loop: "x"}, "reopened": {}, "again": {}})
	assert.NilError(t, err)
	query(t, s.path, "UPDATE receipts SET receipt = json_set(receipt, '$.time', '2026-01-01T00:00:00Z')")
	finish(t, s, "3c9e", "a")
	_, err = s.Accept(ctx, "3c9e", map[string]Receipt{"a": {Loop: "y"}})
	assert.NilError(t, err)
	for _, slug := range []string{"reopened", "again"} {
		assert.NilError(t, s.MakeOpen(ctx, slug, "undone"))
	}
	for _, slug := range []string{"again", "users"} {
		claim(t, s, slug, "")
		assert.NilError(t, s.Done(ctx, slug, ""))
	}
	tasks, err := s.Accepted(ctx)
	assert.NilError(t, err)
	assert.Equal(t, len(tasks), 2)
	assert.Equal(t, tasks[0].Slug+tasks[0].Receipt.Loop+tasks[1].Slug+tasks[1].Receipt.Loop, "bxay")
}

// It is all or nothing.
func TestTooLargeReceipt(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b")
	finish(t, s, "3c9e", "a", "b")
	_, err := s.Accept(t.Context(), "3c9e", map[string]Receipt{"a": {}, "b": {Model: strings.Repeat("x", maxText)}})
	assert.ErrorIs(t, err, ErrTooLarge)
	assert.Equal(t, get(t, s, "a").Status+get(t, s, "b").Status, StatusFinished+StatusFinished)
	assert.Equal(t, query(t, s.path, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'receipts'"), "0\n")
}

// A finished task is neither done nor free: its agent holds it.
func TestFinishedTaskIsHeld(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "a", "waits")
	assert.NilError(t, s.Block(ctx, "waits", "a"))
	finish(t, s, "3c9e", "a")
	query(t, s.path, expireAll)

	_, err := s.Claim(ctx, ClaimOptions{Agent: "beef"})
	assert.ErrorIs(t, err, ErrNoneEligible)
	_, err = s.Claim(ctx, ClaimOptions{Slug: "a", Agent: "beef"})
	assert.ErrorIs(t, err, ErrNotEligible)
	claimable, held, err := s.Peek(ctx, -1)
	assert.NilError(t, err)
	assert.Equal(t, len(claimable)+len(held), 0)
	counts, err := s.Counts(ctx)
	assert.NilError(t, err)
	assert.Equal(t, counts, Counts{Active: 1, Blocked: 1, Waiting: 1})
	for status, want := range map[string]int{StatusFinished: 1, StatusActive: 0, StatusDone: 0} {
		lines, err := s.Lines(ctx, Filter{Statuses: []string{status}})
		assert.NilError(t, err)
		assert.Equal(t, len(lines), want, status)
	}
	deps, err := s.Deps(ctx, "waits")
	assert.NilError(t, err)
	assert.DeepEqual(t, deps, []Dep{{Depth: 1, Slug: "a", Status: StatusFinished, Title: "Title of a"}})
	n, err := s.RenewHeld(ctx, "3c9e", time.Hour)
	assert.NilError(t, err)
	assert.Equal(t, n, 1)
	for _, again := range []error{s.Finish(ctx, "a", ""), s.Done(ctx, "a", "")} {
		assert.ErrorIs(t, again, ErrNotActive)
	}

	accepted, err := s.Accept(ctx, "3c9e", map[string]Receipt{"a": {}})
	assert.NilError(t, err)
	assert.Equal(t, len(accepted), 1)
	assert.Equal(t, claim(t, s, "", "beef").Slug, "waits")
}

func TestChangesOfFinishedTasks(t *testing.T) {
	title, open := "T", StatusOpen
	for _, tc := range []struct {
		name   string
		call   func(*Store) error
		want   string // status
		failed int
	}{
		{"reopen", func(s *Store) error { return s.Reopen(t.Context(), "a", "refused") }, StatusOpen, 1},
		{"make open", func(s *Store) error { return s.MakeOpen(t.Context(), "a", "not like this") }, StatusOpen, 0},
		{"fail of the user", func(s *Store) error { return s.Fail(t.Context(), "a", "no") }, StatusOpen, 1},
		{"fail of its agent", func(s *Store) error { return s.As("3c9e").Fail(t.Context(), "a", "no") }, StatusOpen, 1},
		{"park", func(s *Store) error { return s.Park(t.Context(), "a", NewQuestion{Text: "Why?"}) }, StatusQuestion, 0},
		{"delete", func(s *Store) error { return s.Delete(t.Context(), "a") }, StatusDeleted, 0},
		{"update", func(s *Store) error { return s.Update(t.Context(), "a", Changes{Title: &title}) }, StatusFinished, 0},
		{"update of the status", func(s *Store) error { return s.Update(t.Context(), "a", Changes{Status: &open}) }, StatusOpen, 0},
		{"rename the commit", func(s *Store) error { return s.RenameCommit(t.Context(), "a", `"1"`, `"2"`) }, StatusFinished, 0},
		{"plan with it", func(s *Store) error {
			assert.DeepEqual(t, sync(t, s, `{"id":"a","t":"changed","spec":"x.md"}`), SyncSummary{Skipped: 1})
			return nil
		}, StatusFinished, 0},
		{"plan without it", func(s *Store) error {
			assert.DeepEqual(t, sync(t, s, `{"id":"b","t":"B","spec":"x.md"}`), SyncSummary{Inserted: 1})
			return nil
		}, StatusFinished, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			assert.NilError(t, s.Create(t.Context(), NewTask{Slug: "a", Title: "A", SpecRef: "x.md"}))
			finish(t, s, "3c9e", "a")
			assert.NilError(t, tc.call(s))
			task := get(t, s, "a")
			assert.Equal(t, task.Status, tc.want)
			assert.Equal(t, task.RetryCount, tc.failed)
			accepted, err := s.Accept(t.Context(), "3c9e", map[string]Receipt{"a": {}})
			assert.NilError(t, err)
			assert.Equal(t, len(accepted) == 1, tc.want == StatusFinished)
			if tc.name == "rename the commit" {
				assert.Equal(t, task.Result, `{"commit":"2"}`)
			}
		})
	}
}

func TestFinishedTasksOfStoppedAgentsAreOpen(t *testing.T) {
	for name, stop := range map[string]func(s *Store, id string) error{
		"deregister": func(s *Store, id string) error { return s.DeregisterAgent(t.Context(), id) },
		"dead": func(s *Store, id string) error {
			released, err := s.ReleaseDead(t.Context(), func(Agent) bool { return true })
			assert.DeepEqual(t, released, []Released{{id, "a"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			id, err := s.RegisterAgent(t.Context(), Agent{Loop: true, Session: "s1"})
			assert.NilError(t, err)
			add(t, s, "a", "others")
			finish(t, s, id, "a")
			finish(t, s, id+"0", "others")
			assert.NilError(t, stop(s, id))
			task := get(t, s, "a")
			assert.Equal(t, task.Status+task.Assignee+task.Result+task.LeaseExpiresAt, StatusOpen)
			assert.Equal(t, task.FailReason, "the run ended before its commits were taken")
			assert.Equal(t, task.RetryCount, 0)
			assert.Equal(t, get(t, s, "others").Status, StatusFinished)
		})
	}
}

func TestReceiptOfTheLatestAttempt(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "a")
	for _, commit := range []string{"one", "two"} {
		finish(t, s, "3c9e", "a")
		_, err := s.Accept(ctx, "3c9e", map[string]Receipt{"a": {Commit: commit}})
		assert.NilError(t, err)
		assert.NilError(t, s.Reopen(ctx, "a", "again"))
	}
	task := get(t, s, "a")
	assert.Equal(t, task.Receipt.Commit, "two")
	assert.Equal(t, task.Receipt.Attempt, 2)
	assert.Equal(t, query(t, s.path, "SELECT COUNT(*) FROM receipts"), "2\n")

	// A new task with the name of a deleted one has none.
	assert.NilError(t, s.Delete(ctx, "a"))
	assert.Assert(t, get(t, s, "a").Receipt != nil)
	add(t, s, "a")
	assert.Assert(t, get(t, s, "a").Receipt == nil)

	query(t, s.path, "INSERT INTO receipts SELECT id, 1, 'no JSON' FROM tasks")
	_, err := s.Show(ctx, "a")
	assert.ErrorIs(t, err, ErrDamaged)
}

// Databases of plain hosts have the tables of the original program only.
func TestReceiptsOfOtherDatabases(t *testing.T) {
	ctx := t.Context()
	renamed := Scope{Repo: "acme/shop", Branch: "renamed"}
	from := openStore(t, dbPath(t), testScope())
	add(t, from, "a", "b")
	finish(t, from, "3c9e", "a", "b")
	_, err := from.Accept(ctx, "3c9e", map[string]Receipt{"a": {Commit: "c0ffee"}})
	assert.NilError(t, err)

	path := hostPath(t)
	_, err = Import(ctx, from.path, path, testScope())
	assert.NilError(t, err)
	imported := openHost(t, path, testScope())
	assert.Equal(t, get(t, imported, "a").Status, StatusDone)
	assert.Assert(t, get(t, imported, "a").Receipt == nil, "an agent can have written it")
	assert.Equal(t, get(t, imported, "b").Status, StatusOpen)

	other := openHost(t, hostPath(t), renamed)
	_, err = other.AdoptFrom(ctx, from)
	assert.Error(t, err, "task 'b' is active")
	query(t, from.path, expireAll)
	_, err = other.AdoptFrom(ctx, from)
	assert.NilError(t, err)
	assert.Equal(t, get(t, other, "a").Receipt.Commit, "c0ffee")
	assert.Equal(t, get(t, other, "b").Status, StatusOpen)
	assert.Equal(t, query(t, from.path, "SELECT COUNT(*) FROM receipts"), "0\n")

	finish(t, other, "beef", "b")
	same := openHost(t, other.path, testScope())
	_, err = same.Adopt(ctx, renamed)
	assert.Error(t, err, "task 'b' is active")
	query(t, other.path, expireAll)
	_, err = same.Adopt(ctx, renamed)
	assert.NilError(t, err)
	assert.Equal(t, get(t, same, "a").Receipt.Commit, "c0ffee")
	assert.Equal(t, get(t, same, "b").Status, StatusOpen)
}
