package backlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/dbcopy"
)

const (
	// idSuffix is that of the file with the ID of the move that has brought the database.
	idSuffix = ".move"
	// receivingSuffix and sendingSuffix are those of a copy that is not complete.
	receivingSuffix = ".receiving"
	sendingSuffix   = ".sending"
	// movedSuffix is that of a database that was moved elsewhere.
	movedSuffix = ".moved"
)

// Receive installs the database of a stream at path, unless the one there has tasks. It returns
// whether that was kept, and is not from an earlier attempt of the same move.
func Receive(ctx context.Context, path, id string, r io.Reader) (kept bool, err error) {
	if kept, err = receive(ctx, path, id, r); err != nil {
		return false, fmt.Errorf("moving the backlog into the clone: %w", err)
	}
	return kept, nil
}

func receive(ctx context.Context, path, id string, r io.Reader) (kept bool, err error) {
	if err := prepareDir(path); err != nil {
		return false, err
	}
	tasks, err := countAt(ctx, path)
	if err != nil {
		return false, err
	}
	if tasks > 0 {
		moved, err := os.ReadFile(path + idSuffix)
		return string(moved) != id, ignoreMissing(err)
	}
	temp := path + receivingSuffix
	if err := removeDatabase(temp); err != nil {
		return false, err
	}
	files, err := dbcopy.Receive(r, func(f dbcopy.File) error { return writeSynced(temp+f.Suffix, f.Content) })
	if err != nil || files == 0 {
		return false, err
	}
	s, err := Open(ctx, temp, Scope{})
	if err != nil {
		return false, err
	}
	// Closing it also writes the log into the database.
	if err := errors.Join(s.verify(ctx), s.Close(), syncFile(temp)); err != nil {
		return false, err
	}
	if err := writeSynced(path+idSuffix, strings.NewReader(id)); err != nil {
		return false, err
	}
	if err := removeJournals(path); err != nil { // of a database without tasks
		return false, err
	}
	if err := os.Rename(temp, path); err != nil {
		return false, err
	}
	return false, syncFile(filepath.Dir(path))
}

// countAt counts the tasks of all scopes, of a database that may not exist. A damaged one is
// moved away.
func countAt(ctx context.Context, path string) (tasks int, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	s, _, err := openOrReplace(ctx, path, Scope{})
	if err != nil {
		return 0, err
	}
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM tasks").Scan(&tasks)
	})
	return tasks, errors.Join(err, s.Close())
}

// Send streams the database at path, which may not exist. Together with the ID, [Release] makes
// sure that it moves away the same one.
func Send(ctx context.Context, path, id string, w io.Writer) error {
	if err := send(ctx, path, id, w); err != nil {
		return fmt.Errorf("moving the backlog out of the clone: %w", err)
	}
	return nil
}

func send(ctx context.Context, path, id string, w io.Writer) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return dbcopy.Send(w, nil)
	}
	s, err := Open(ctx, path, Scope{})
	if err != nil {
		return err
	}
	temp := path + sendingSuffix
	err = errors.Join(removeDatabase(temp), s.verify(ctx))
	if err == nil { // one complete file, while others may use the database
		err = s.explain(ctx, s.wait.retry(ctx, func() error {
			_, err := s.db.ExecContext(ctx, "VACUUM INTO ?", temp)
			return err
		}))
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := writeSynced(path+idSuffix, strings.NewReader(id)); err != nil {
		return err
	}
	f, err := os.Open(temp)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = dbcopy.Send(w, []dbcopy.File{{Size: info.Size(), Content: f}})
	}
	return errors.Join(err, f.Close(), removeDatabase(temp))
}

// Release moves the database at path away after [Send] with the same ID. It can be repeated.
func Release(path, id string) error {
	moved, err := os.ReadFile(path + idSuffix)
	if err = ignoreMissing(err); err == nil && string(moved) == id {
		err = release(path)
	}
	if err != nil {
		return fmt.Errorf("moving the backlog out of the clone: %w", err)
	}
	return nil
}

func release(path string) error {
	if _, err := os.Lstat(path); err == nil {
		if err := removeDatabase(path + movedSuffix); err != nil {
			return err
		}
		for _, suffix := range []string{"-wal", "-journal", ""} {
			if err := ignoreMissing(os.Rename(path+suffix, path+movedSuffix+suffix)); err != nil {
				return err
			}
		}
	}
	return errors.Join(removeJournals(path), ignoreMissing(os.Remove(path+idSuffix)))
}

// verify checks the integrity of the database.
func (s *Store) verify(ctx context.Context) error {
	return s.read(ctx, func(tx *sql.Tx) error { return s.quickCheck(ctx, tx) })
}

func (s *Store) quickCheck(ctx context.Context, tx *sql.Tx) error {
	var found string
	if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return s.damaged(errors.New(found))
	}
	return nil
}

func removeDatabase(path string) error {
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return err
	}
	return removeJournals(path)
}

// writeSynced replaces a file, without following a link.
func writeSynced(path string, content io.Reader) error {
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFile writes a file or a directory to disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
