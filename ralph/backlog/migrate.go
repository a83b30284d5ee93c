package backlog

import (
	"context"
	"database/sql"
	"strings"
)

// migrateScope moves tasks of this repository that the original program stored under
// another spelling of its name, such as "o/r/" for https://host/o/r/, into the
// scope. A task whose slug already exists in the scope is not moved.
func (s *Store) migrateScope(ctx context.Context) error {
	base := strings.Trim(s.scope.Repo, "/")
	if base == "" {
		return nil
	}
	spellings := []any{base, "/" + base, base + "/", base + ".git/"}
	const where = " WHERE t.scope_repo <> ?1 AND t.scope_branch = ?2 AND t.scope_repo IN (?3, ?4, ?5, ?6)"
	var found bool
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM tasks t"+where+")", s.args(spellings...)...).Scan(&found)
	})
	if err != nil || !found {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE OR IGNORE tasks AS t SET scope_repo = ?1"+where, s.args(spellings...)...)
		return err
	})
}
