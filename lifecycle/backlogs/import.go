package backlogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// importMax bounds each file of an imported database, in bytes.
const importMax = 256 << 20

// importFrom creates the backlog of a scope from the database in its worktree, if there is one. An agent can have written
// that: a copy is read.
func importFrom(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) error {
	dir, err := os.MkdirTemp(scopes.Dir(h.StateDir, name), "import")
	if err != nil {
		return fmt.Errorf("importing the backlog: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a remainder does no harm

	from, copied := filepath.Join(wt.Root, ".ralph", database), filepath.Join(dir, database)
	err = copyDatabase(wt.Root, copied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	const remedy = "to start with an empty backlog, move %s away"
	if err != nil {
		return hint.Wrap(fmt.Errorf("importing %s: %w", from, err), remedy, from)
	}
	n, err := backlog.Import(ctx, copied, path(h, name), backlog.Scope(wt.Scope))
	if err != nil && ctx.Err() == nil { // it is about the copy
		return hint.Wrap(errors.New(strings.ReplaceAll(err.Error(), copied, from)), remedy, from)
	}
	if err != nil {
		return err
	}
	if n > 0 {
		h.Report(fmt.Sprintf("Imported %s from .ralph/%s", host.Count(n, "task"), database))
	}
	return nil
}

// copyDatabase copies the database of a worktree, following no links. The error is [fs.ErrNotExist] without one.
func copyDatabase(root, to string) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	if info, err := top.Lstat(".ralph"); err == nil && !info.IsDir() { // another program's
		return fs.ErrNotExist
	}
	dir, err := runlog.OpenDir(top, ".ralph")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(database); err == nil && !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}

	if err := copyFile(dir, database, to); err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-journal"} {
		if err := copyFile(dir, database+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(dir *os.Root, name, to string) (err error) {
	from, err := runlog.OpenFile(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err := io.Copy(out, io.LimitReader(from, importMax+1))
	if err == nil && n > importMax {
		err = fmt.Errorf("%s has more than %d MiB", name, importMax>>20)
	}
	return err
}
