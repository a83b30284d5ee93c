package backlog

import (
	"context"
	"database/sql"
)

// Other is another scope of the database, with the number of its tasks that are not deleted.
type Other struct {
	Scope
	Tasks int
}

// Renamed lists the scopes with tasks that were probably those of this worktree: their branch does
// not exist any more, or is the current one with another origin.
func (s *Store) Renamed(ctx context.Context) ([]Other, error) {
	var all []Other
	err := s.read(ctx, func(tx *sql.Tx) error {
		all = nil
		return each(ctx, tx, `
			SELECT scope_repo, scope_branch, COUNT(*) FROM tasks
			WHERE status <> 'deleted' AND (scope_repo <> ?1 OR scope_branch <> ?2)
			GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2`, s.args(), func(rows *sql.Rows) error {
			var o Other
			err := rows.Scan(&o.Repo, &o.Branch, &o.Tasks)
			all = append(all, o)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	var renamed []Other
	for _, o := range all {
		if o.Branch != s.scope.Branch {
			name, err := git(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/"+o.Branch)
			if err != nil || name == "refs/heads/"+o.Branch {
				continue
			}
		}
		renamed = append(renamed, o)
	}
	return renamed, nil
}

// Adopt moves the tasks of another scope to this one, and returns their number. A task of this
// scope is not replaced, and a claimed one not moved.
func (s *Store) Adopt(ctx context.Context, from Scope) (moved int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		var twice, claimed sql.NullString
		err := tx.QueryRowContext(ctx, `
			SELECT MIN(f.slug) FILTER (WHERE t.id IS NOT NULL),
				MIN(f.slug) FILTER (WHERE f.status IN ('active', 'finished') AND f.lease_expires_at > datetime('now'))
			FROM tasks f LEFT JOIN tasks t ON t.scope_repo = ?1 AND t.scope_branch = ?2 AND t.slug = f.slug
			WHERE f.scope_repo = ?3 AND f.scope_branch = ?4`, s.args(from.Repo, from.Branch)...).Scan(&twice, &claimed)
		switch {
		case err != nil:
			return err
		case twice.Valid:
			return existsTwice(twice.String)
		case claimed.Valid:
			return activeElsewhere(claimed.String)
		}
		res, err := tx.ExecContext(ctx, `
			UPDATE tasks SET scope_repo = ?1, scope_branch = ?2, status = iif(status = 'finished', 'open', status), updated_at = datetime('now')
			WHERE scope_repo = ?3 AND scope_branch = ?4`, s.args(from.Repo, from.Branch)...)
		if err != nil {
			return err
		}
		if moved, err = res.RowsAffected(); err == nil && moved == 0 {
			err = errNoTasks
		}
		return err
	})
	return moved, err
}
