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

// Damage is the damage that [Restore] has repaired.
type Damage struct {
	File    string   // what happened to the database file, if anything
	Lost    []string // tasks that were missing
	Deleted []string // tasks that the agent has deleted and not created
}

// String describes the damage; it is empty without any.
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

// damagedSuffix is appended to the name of a damaged database.
const damagedSuffix = ".damaged"

// Restore restores tasks, dependencies and agents that a copy has and the database
// at path has lost, whatever happened to the file. Later changes are preserved,
// except for deletions by other programs, and by this agent of tasks in the copy.
// entries are the changes of the agent's run; they are repeated for lost tasks.
func Restore(ctx context.Context, path string, c *Copy, agent string, entries []Entry) (d Damage, err error) {
	s, what, err := openOrReplace(ctx, path, Scope{})
	if d.File = what; err != nil {
		return d, err
	}
	r := restorer{store: s, copy: c, agent: agent}
	err = s.write(ctx, func(tx *sql.Tx) error {
		r.tx, r.damage, r.restored = tx, Damage{File: d.File}, map[string]bool{}
		return r.run(ctx)
	})
	if err == nil {
		err = r.replay(ctx, entries)
	}
	return r.damage, errors.Join(err, s.Close())
}

// openOrReplace opens a database, or creates a new one in place of a damaged one,
// and returns the damage.
func openOrReplace(ctx context.Context, path string, scope Scope) (s *Store, what string, err error) {
	if what, err = repairPath(path); err != nil {
		return nil, what, err
	}
	s, err = Open(ctx, path, scope)
	if err == nil {
		if _, err = s.Copy(ctx); err != nil {
			_ = s.Close() // the first error says more
		}
	}
	if errors.Is(err, ErrDamaged) {
		if what == "" {
			what = "was damaged"
		}
		if err := moveAside(path); err != nil {
			return nil, what, err
		}
		s, err = Open(ctx, path, scope)
	}
	return s, what, err
}

// Import replaces the tasks of a scope by those of a copy, even if the database is
// damaged, and returns the number of tasks.
func Import(ctx context.Context, path string, scope Scope, c *Copy) (int, error) {
	if len(c.Of(scope).Tasks) == 0 {
		return 0, fmt.Errorf("the copy has no tasks of %s, branch %s", scope.Repo, scope.Branch)
	}
	s, _, err := openOrReplace(ctx, path, scope)
	if err != nil {
		return 0, err
	}
	return len(c.Of(scope).Tasks), errors.Join(s.Replace(ctx, c), s.Close())
}

// repairPath prepares path for a database, and returns the damage to the file or its
// directory.
func repairPath(path string) (what string, err error) {
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
		return "was replaced by " + fileKind(info), nil
	}
	closed, err := ensureMode(dir, info, 0o700)
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
		return "was replaced by " + fileKind(info), moveAside(path)
	case info.Size() == 0:
		return "was emptied", moveAside(path)
	}
	locked, err := ensureMode(path, info, 0o600)
	if closed || locked {
		what = "lost its permissions"
	}
	return what, err
}

// ensureMode adds missing permission bits to a path, and reports whether any were
// missing.
func ensureMode(path string, info fs.FileInfo, needed fs.FileMode) (lacked bool, err error) {
	if info.Mode()&needed == needed {
		return false, nil
	}
	if err := os.Chmod(path, info.Mode().Perm()|needed); err != nil {
		return false, fmt.Errorf("changing the mode of the backlog: %w", err)
	}
	return true, nil
}

func fileKind(info fs.FileInfo) string {
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

// moveAside renames a damaged database, for inspection.
func moveAside(path string) error {
	err := os.RemoveAll(path + damagedSuffix)
	if err == nil {
		err = os.Rename(path, path+damagedSuffix)
	}
	if err != nil {
		return fmt.Errorf("moving %s away: %w", path, err)
	}
	return removeJournals(path)
}

// removeJournals removes the journals of a removed database: SQLite would apply
// them to the next one.
func removeJournals(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.RemoveAll(path + suffix); err != nil {
			return fmt.Errorf("removing %s: %w", path+suffix, err)
		}
	}
	return nil
}

// restorer restores rows in one transaction.
type restorer struct {
	store    *Store
	tx       *sql.Tx
	copy     *Copy
	agent    string
	damage   Damage
	restored map[string]bool // ids of lost tasks
}

func (r *restorer) run(ctx context.Context) error {
	current, err := r.current(ctx)
	if err != nil {
		return err
	}
	for _, t := range r.copy.Tasks {
		now, exists := current[t.str("id")]
		switch {
		case !exists:
			err = r.insert(ctx, t)
		case r.wronglyDeleted(t, now):
			err = r.undelete(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("restoring task '%s': %w", t.str("slug"), err)
		}
	}
	for _, d := range r.copy.Deps {
		if !r.restored[d.str("task_id")] && !r.restored[d.str("blocked_by")] {
			continue
		}
		if err := d.insertDep(ctx, r.tx); err != nil {
			return fmt.Errorf("restoring dependencies: %w", err)
		}
	}
	for _, a := range r.copy.Agents {
		if err := a.insert(ctx, r.tx, "agents"); err != nil {
			return fmt.Errorf("restoring agent %s: %w", a.str("id"), err)
		}
	}
	return nil
}

// deletion is the deletion of a task in the database.
type deletion struct {
	status, by string
	foreign    bool // deleted by another program
}

func (r *restorer) current(ctx context.Context) (map[string]deletion, error) {
	found := map[string]deletion{}
	err := each(ctx, r.tx, "SELECT id, COALESCE(status, ''), COALESCE(deleted_by, ''), deleted_by IS NULL FROM tasks", nil, func(rows *sql.Rows) error {
		var id string
		var d deletion
		err := rows.Scan(&id, &d.status, &d.by, &d.foreign)
		found[id] = d
		return err
	})
	return found, err
}

func (r *restorer) wronglyDeleted(before Row, now deletion) bool {
	if now.status != StatusDeleted || before.str("status") == StatusDeleted {
		return false
	}
	return now.foreign || r.agent != "" && now.by == r.agent
}

// insert restores a lost task, in place of any new task with its slug.
func (r *restorer) insert(ctx context.Context, t Row) error {
	_, err := r.tx.ExecContext(ctx, "DELETE FROM tasks WHERE scope_repo = ? AND scope_branch = ? AND slug = ?",
		t["scope_repo"], t["scope_branch"], t["slug"])
	if err != nil {
		return err
	}
	r.restored[t.str("id")] = true
	r.damage.Lost = append(r.damage.Lost, t.str("slug"))
	return t.insert(ctx, r.tx, "tasks")
}

// undelete restores the status of a task. A task claimed since the copy becomes
// active; its agent releases it.
func (r *restorer) undelete(ctx context.Context, t Row) error {
	r.damage.Deleted = append(r.damage.Deleted, t.str("slug"))
	_, err := r.tx.ExecContext(ctx, `
		UPDATE tasks SET deleted_at = NULL, deleted_by = NULL, updated_at = datetime('now'),
			status = CASE WHEN COALESCE(attempt, 0) > ? THEN 'active' ELSE ? END
		WHERE id = ?`, t["attempt"], t["status"], t["id"])
	return err
}

// replay repeats the changes of the run to lost tasks. Changes that no longer
// apply are skipped.
func (r *restorer) replay(ctx context.Context, entries []Entry) error {
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
		case e.Op == opAsk && e.Question != nil:
			err = s.Ask(ctx, e.Slug, e.Agent, *e.Question)
		}
		if errors.Is(err, ErrLocked) || resultCode(err) != 0 {
			return fmt.Errorf("replaying the run's changes to task '%s': %w", e.Slug, err)
		}
	}
	return nil
}
