// Package sqlshell opens a database in tests as other programs do between two runs of
// ralph.
package sqlshell

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// Run runs SQL and returns the rows, one per line, with "|" between columns. It uses the
// sqlite3 program if it is installed, because that is another implementation than ralph's.
func Run(ctx context.Context, path, text string) (string, error) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		return runDriver(ctx, path, text)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, program, "-batch", "-bail", "-cmd", ".timeout 5000", path, text)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %q: %w: %s", text, err, &stderr)
	}
	return string(out), nil
}

func runDriver(ctx context.Context, path, text string) (out string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=5000"}).String())
	if err != nil {
		return "", err
	}
	db.SetMaxOpenConns(1) // pragmas are of a connection
	defer func() { err = errors.Join(err, db.Close()) }()
	var b strings.Builder
	for _, statement := range split(text) {
		if err := run(ctx, db, statement, &b); err != nil {
			return "", fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return b.String(), nil
}

// split splits SQL into statements, except at semicolons in quotes.
func split(text string) []string {
	var statements []string
	quote, begin := rune(0), 0
	for i, r := range text {
		switch {
		case r == quote:
			quote = 0
		case quote != 0:
		case r == '\'' || r == '"':
			quote = r
		case r == ';':
			statements = append(statements, text[begin:i])
			begin = i + 1
		}
	}
	if strings.TrimSpace(text[begin:]) != "" {
		statements = append(statements, text[begin:])
	}
	return statements
}

func run(ctx context.Context, db *sql.DB, statement string, out *strings.Builder) error {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err below says what matters
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, columns := make([]any, len(names)), make([]string, len(names))
	for i := range values {
		values[i] = new(any)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			return err
		}
		for i, value := range values {
			columns[i] = column(*value.(*any))
		}
		_, _ = fmt.Fprintln(out, strings.Join(columns, "|"))
	}
	return rows.Err()
}

func column(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case float64:
		text := strconv.FormatFloat(v, 'g', 15, 64)
		if !strings.ContainsAny(text, ".eI") {
			text += ".0"
		}
		return text
	}
	return fmt.Sprint(value)
}
