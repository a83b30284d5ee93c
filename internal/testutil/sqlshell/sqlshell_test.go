package sqlshell

import (
	"context"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestBothWays(t *testing.T) {
	const text = `CREATE TABLE t (a INTEGER, b TEXT); PRAGMA foreign_keys = ON; INSERT INTO t VALUES (1, 'it''s; "x"'), (NULL, X'42');
		SELECT a, b FROM t ORDER BY a; SELECT 1.5, 2.0, 1 = 1, "a" FROM t LIMIT 1; PRAGMA foreign_keys`
	const want = "|B\n1|it's; \"x\"\n1.5|2.0|1|1\n1\n"
	for name, run := range map[string]func(context.Context, string, string) (string, error){"best": Run, "driver": runDriver} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			got, err := run(t.Context(), path, text)
			assert.NilError(t, err)
			assert.Equal(t, got, want)
			_, err = run(t.Context(), path, "SELECT 1; SELECT absent FROM t")
			assert.ErrorContains(t, err, "no such column: absent")
		})
	}
}
