package backlog

import (
	"context"
	"database/sql"
	"strings"
)

// adopt moves the tasks of this repository that are stored under another
// spelling of its name into the scope. Versions that read the URL of origin by
// another rule named the repository of https://host/o/r/ "o/r/", for example.
// A task whose slug the scope has already stays where it is.
func (s *Store) adopt(ctx context.Context) error {
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
