package backlogs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/dbcopy"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Names of task databases in .ralph of a worktree.
const (
	database = "tasks.db"
	// aside is the database of the worktree while a sandbox has the backlog.
	aside = "tasks.db.moved"
	// arriving is a database from a sandbox that is not complete, and arrived one that is.
	arriving = "tasks.db.arriving"
	arrived  = "tasks.db.arrived"
	// replaced begins the name of a database that a sandbox's has replaced.
	replaced = "tasks.db.replaced-"
)

// files are the files in .ralph of a worktree. No links are followed.
type files struct {
	dir   *os.Root
	owner *runlog.Owner
}

// openDatabase opens .ralph of a worktree, and creates it if necessary.
func openDatabase(root string) (files, error) {
	owner := host.FileOwner(root)
	logs, err := runlog.MakeLogs(root, owner)
	if err != nil {
		return files{}, fmt.Errorf("opening the backlog of %s: %w", root, err)
	}
	_ = logs.Close() // it only has to exist
	top, err := os.OpenRoot(root)
	if err != nil {
		return files{}, fmt.Errorf("opening the backlog of %s: %w", root, err)
	}
	defer func() { _ = top.Close() }()
	dir, err := runlog.OpenDir(top, ".ralph")
	if err != nil {
		return files{}, fmt.Errorf("opening the backlog of %s: %w", root, err)
	}
	return files{dir, owner}, nil
}

func (f files) close() { _ = f.dir.Close() }

func (f files) exists(name string) bool {
	_, err := f.dir.Lstat(name)
	return err == nil
}

// send streams the database, or that there is none.
func (f files) send(w io.Writer) error {
	var all []dbcopy.File
	for _, suffix := range dbcopy.Suffixes() {
		file, err := runlog.OpenFile(f.dir, database+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			if suffix == "" {
				break
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the backlog: %w", err)
		}
		defer func() { _ = file.Close() }() // only read
		info, err := file.Stat()
		if err != nil {
			return fmt.Errorf("reading the backlog: %w", err)
		}
		all = append(all, dbcopy.File{Suffix: suffix, Size: info.Size(), Content: file})
	}
	return dbcopy.Send(w, all)
}

// receive writes a database from a sandbox to [arrived], and reports whether the sandbox has one.
func (f files) receive(r io.Reader) (found bool, err error) {
	for _, name := range []string{arriving, arrived} {
		if err := f.dir.RemoveAll(name); err != nil {
			return false, err
		}
	}
	n, err := dbcopy.Receive(r, func(file dbcopy.File) error {
		if file.Suffix != "" {
			return errors.New("unexpected database journal")
		}
		return f.write(arriving, file)
	})
	if err != nil || n == 0 {
		return false, err
	}
	return true, f.rename(arriving, arrived)
}

// write writes and checks a database. It is not opened: an agent can have written it.
func (f files) write(name string, from dbcopy.File) (err error) {
	const headerSize = 100
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(from.Content, header); err != nil {
		return fmt.Errorf("not a database: %w", err)
	}
	pageSize := int64(binary.BigEndian.Uint16(header[16:]))
	if pageSize == 1 {
		pageSize = 1 << 16
	}
	if string(header[:16]) != "SQLite format 3\x00" || pageSize < 512 || from.Size%pageSize != 0 {
		return errors.New("not a database")
	}
	to, err := f.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := f.owner.Chown(f.dir, name); err != nil {
		return err
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	if _, err := io.Copy(to, from.Content); err != nil {
		return err
	}
	return to.Sync()
}

// moveAside renames the database and its logs. It can be repeated.
func (f files) moveAside(to string) error {
	if f.exists(database) {
		if err := f.remove(to); err != nil {
			return err
		}
	}
	// Without its logs, the database is never opened.
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if err := f.rename(database+suffix, to+suffix); err != nil {
			return err
		}
	}
	return f.dir.RemoveAll(database + "-shm")
}

// settle makes the database that has arrived the worktree's, and renames any other one. If the
// sandbox had none, the one that was moved aside becomes it. It can be repeated.
func (f files) settle(to string) error {
	switch {
	case f.exists(arrived):
		if err := f.moveAside(to); err != nil {
			return err
		}
		return f.rename(arrived, database)
	case !f.exists(database):
		for _, suffix := range []string{"-wal", "-journal", ""} { // with the last one it is complete
			if err := f.rename(aside+suffix, database+suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a database and its logs.
func (f files) remove(name string) error {
	for _, suffix := range []string{"", "-wal", "-journal", "-shm"} {
		if err := f.dir.RemoveAll(name + suffix); err != nil {
			return err
		}
	}
	return nil
}

// rename renames a file that may not exist, and writes that to disk.
func (f files) rename(from, to string) error {
	if err := f.dir.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if dir, err := f.dir.Open("."); err == nil {
		_ = dir.Sync() // not everywhere possible
		_ = dir.Close()
	}
	return nil
}
