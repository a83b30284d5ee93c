package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Damage is what was done to a backlog that no agent may do to it. It has been
// undone.
type Damage struct {
	File    string   // what happened to the database; or ""
	Lost    []string // tasks that were gone
	Deleted []string // tasks that the agent has deleted and not created
}

// String is for people; it is empty if there was no damage.
func (d Damage) String() string {
	var parts []string
	if d.File != "" {
		parts = append(parts, "the task database "+d.File)
	}
	if n := len(d.Lost); n > 0 {
		parts = append(parts, fmt.Sprintf("%s removed from the backlog", tasksWere(n)))
	}
	if n := len(d.Deleted); n > 0 {
		parts = append(parts, fmt.Sprintf("%s deleted that the run had not created", tasksWere(n)))
	}
	return strings.Join(parts, ", ")
}

func tasksWere(n int) string {
	if n == 1 {
		return "1 task was"
	}
	return fmt.Sprintf("%d tasks were", n)
}

// damagedSuffix is what a database is called that was moved out of the way.
const damagedSuffix = ".damaged"

// Restore brings back what a copy of the database at path holds and the database
// does not any more, whatever became of the file, and says what that was. What
// commands have changed since the copy stays, except for deletions: by other
// programs, and by this agent where the copy has the task. entries are what the
// agent's run has done: where its tasks were lost, that is repeated.
func Restore(ctx context.Context, path string, c *Copy, agent string, entries []Entry) (d Damage, err error) {
	s, what, err := openAnyway(ctx, path, Scope{})
	if d.File = what; err != nil {
		return d, err
	}
	r := restoration{store: s, copy: c, agent: agent}
	err = s.write(ctx, func(tx *sql.Tx) error {
		r.tx, r.damage, r.back = tx, Damage{File: d.File}, map[string]bool{}
		return r.all(ctx)
	})
	if err == nil {
		err = r.replay(ctx, entries)
	}
	return r.damage, errors.Join(err, s.Close())
}

// openAnyway opens a database, or a new one in the place of what is none, and says
// what was wrong.
func openAnyway(ctx context.Context, path string, scope Scope) (s *Store, what string, err error) {
	if what, err = clearWay(path); err != nil {
		return nil, what, err
	}
	s, err = Open(ctx, path, scope)
	if err == nil {
		// Only what can be read to its end is whole.
		if _, err = s.Copy(ctx); err != nil {
			_ = s.Close() // the first error says more
		}
	}
	if errors.Is(err, ErrDamaged) {
		if what == "" {
			what = "was damaged"
		}
		if err := moveAway(path); err != nil {
			return nil, what, err
		}
		s, err = Open(ctx, path, scope)
	}
	return s, what, err
}

// Import makes the tasks of a scope those of a copy, also where the database
// cannot be used, and returns how many there are.
func Import(ctx context.Context, path string, scope Scope, c *Copy) (int, error) {
	if len(c.Of(scope).Tasks) == 0 {
		return 0, fmt.Errorf("the copy has no tasks of %s, branch %s", scope.Repo, scope.Branch)
	}
	s, _, err := openAnyway(ctx, path, scope)
	if err != nil {
		return 0, err
	}
	return len(c.Of(scope).Tasks), errors.Join(s.Replace(ctx, c), s.Close())
}

// clearWay says what has become of a database's file, or of its folder, and moves
// away what is neither.
func clearWay(path string) (what string, err error) {
	dir := filepath.Dir(path)
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "was removed", nil
	case err != nil:
		return "", fmt.Errorf("checking %s: %w", dir, err)
	case !info.IsDir():
		if err := os.Remove(dir); err != nil {
			return "", fmt.Errorf("moving the damaged backlog: %w", err)
		}
		return "was replaced by " + kindOf(info), nil
	}
	closed, err := permit(dir, info, 0o700)
	if err != nil {
		return "", err
	}
	info, err = os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "was removed", removeJournals(path)
	case err != nil:
		return "", fmt.Errorf("checking %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "was replaced by " + kindOf(info), moveAway(path)
	case info.Size() == 0:
		return "was emptied", moveAway(path)
	}
	locked, err := permit(path, info, 0o600)
	if closed || locked {
		what = "lost its permissions"
	}
	return what, err
}

// permit gives a path the permissions that its owner needs, and says whether it
// lacked them.
func permit(path string, info fs.FileInfo, needed fs.FileMode) (lacked bool, err error) {
	if info.Mode()&needed == needed {
		return false, nil
	}
	if err := os.Chmod(path, info.Mode().Perm()|needed); err != nil {
		return false, fmt.Errorf("changing the mode of the backlog: %w", err)
	}
	return true, nil
}

func kindOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsDir():
		return "a directory"
	case mode.IsRegular():
		return "a file"
	default:
		return "a special file"
	}
}

// moveAway keeps the last thing that was in the database's place, for whoever
// wants to know what it was.
func moveAway(path string) error {
	err := os.RemoveAll(path + damagedSuffix)
	if err == nil {
		err = os.Rename(path, path+damagedSuffix)
	}
	if err != nil {
		return fmt.Errorf("moving %s away: %w", path, err)
	}
	return removeJournals(path)
}

// removeJournals removes what belongs to a database that is gone: SQLite would
// take it for part of the next one.
func removeJournals(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.RemoveAll(path + suffix); err != nil {
			return fmt.Errorf("removing %s: %w", path+suffix, err)
		}
	}
	return nil
}

// restoration is one attempt at bringing rows back, inside one transaction.
type restoration struct {
	store  *Store
	tx     *sql.Tx
	copy   *Copy
	agent  string
	damage Damage
	back   map[string]bool // ids of tasks that were gone
}

func (r *restoration) all(ctx context.Context) error {
	current, err := r.current(ctx)
	if err != nil {
		return err
	}
	for _, t := range r.copy.Tasks {
		now, exists := current[t.text("id")]
		switch {
		case !exists:
			err = r.bringBack(ctx, t)
		case r.wronglyDeleted(t, now):
			err = r.undelete(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("restoring task '%s': %w", t.text("slug"), err)
		}
	}
	for _, d := range r.copy.Deps {
		if !r.back[d.text("task_id")] && !r.back[d.text("blocked_by")] {
			continue
		}
		if err := d.insertDep(ctx, r.tx); err != nil {
			return fmt.Errorf("restoring dependencies: %w", err)
		}
	}
	for _, a := range r.copy.Agents {
		if err := a.insert(ctx, r.tx, "agents"); err != nil {
			return fmt.Errorf("restoring agent %s: %w", a.text("id"), err)
		}
	}
	return nil
}

// deletion is what the database says of a task's deletion.
type deletion struct {
	status, by string
	byNobody   bool // no command of ours has deleted it
}

func (r *restoration) current(ctx context.Context) (map[string]deletion, error) {
	found := map[string]deletion{}
	err := each(ctx, r.tx, "SELECT id, COALESCE(status, ''), COALESCE(deleted_by, ''), deleted_by IS NULL FROM tasks", nil, func(rows *sql.Rows) error {
		var id string
		var d deletion
		err := rows.Scan(&id, &d.status, &d.by, &d.byNobody)
		found[id] = d
		return err
	})
	return found, err
}

func (r *restoration) wronglyDeleted(before Row, now deletion) bool {
	if now.status != StatusDeleted || before.text("status") == StatusDeleted {
		return false
	}
	return now.byNobody || r.agent != "" && now.by == r.agent
}

// bringBack adds a task that is gone. One that has its slug meanwhile was made in
// its place.
func (r *restoration) bringBack(ctx context.Context, t Row) error {
	_, err := r.tx.ExecContext(ctx, "DELETE FROM tasks WHERE scope_repo = ? AND scope_branch = ? AND slug = ?",
		t["scope_repo"], t["scope_branch"], t["slug"])
	if err != nil {
		return err
	}
	r.back[t.text("id")] = true
	r.damage.Lost = append(r.damage.Lost, t.text("slug"))
	return t.insert(ctx, r.tx, "tasks")
}

// undelete gives a task back the status that it had. One that was claimed since
// the copy is active: who holds it gives it back.
func (r *restoration) undelete(ctx context.Context, t Row) error {
	r.damage.Deleted = append(r.damage.Deleted, t.text("slug"))
	_, err := r.tx.ExecContext(ctx, `
		UPDATE tasks SET deleted_at = NULL, deleted_by = NULL, updated_at = datetime('now'),
			status = CASE WHEN COALESCE(attempt, 0) > ? THEN 'active' ELSE ? END
		WHERE id = ?`, t["attempt"], t["status"], t["id"])
	return err
}

// replay repeats what the run has done, for tasks whose rows were lost with it.
// What cannot be done again was undone by others.
func (r *restoration) replay(ctx context.Context, entries []Entry) error {
	lost := map[string]bool{}
	for _, slug := range r.damage.Lost {
		lost[slug] = true
	}
	if len(lost) == 0 && r.damage.File == "" {
		return nil
	}
	for _, e := range entries {
		s := *r.store
		s.scope = e.Scope
		var err error
		switch {
		case e.Op == opCreate && e.Task != nil:
			err = s.Create(ctx, *e.Task)
			lost[e.Slug] = lost[e.Slug] || err == nil
		case !lost[e.Slug]:
		case e.Op == opClaim:
			_, err = s.Claim(ctx, ClaimOptions{Slug: e.Slug, Agent: e.Agent, Lease: DefaultLease})
		case e.Op == opDone:
			err = s.Done(ctx, e.Slug, e.Result)
		case e.Op == opFail:
			err = s.Fail(ctx, e.Slug, e.Reason)
		}
		if errors.Is(err, ErrLocked) || resultCode(err) != 0 {
			return fmt.Errorf("replaying the run's changes to task '%s': %w", e.Slug, err)
		}
	}
	return nil
}
