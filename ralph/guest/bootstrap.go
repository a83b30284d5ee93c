package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"
)

// bootstrap installs ralph in a sandbox whose image does not contain it, for the
// image's user. It can be killed at any moment and repeated.
type bootstrap struct {
	version string // of the running program
	home    string
	bin     string // for programs of all users
	root    rootShell
}

// runBootstrap installs ralph: VERSION.
func runBootstrap(ctx context.Context, s streams, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	home, err := homeDir()
	if err != nil {
		return err
	}
	return bootstrap{version: args[0], home: home, bin: "/usr/local/bin", root: rootShell{ctx: ctx}}.run(s)
}

func (b bootstrap) run(s streams) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running program: %w", err)
	}
	want := marker{Version: b.version}
	if want.Hash, err = hashFile(self); err != nil {
		return err
	}
	if b.root.lock, err = b.lock(); err != nil {
		return err
	}
	defer func() { _ = b.root.lock.Close() }()
	if old, err := readMarker(b.home); err == nil && old.Hash == want.Hash && old.intact() {
		return printJSON(s, bootstrapResult{old.Path, false})
	}
	// An interrupted installation must not look complete.
	if err := removeMarker(b.home); err != nil {
		return err
	}
	if want.Path, err = b.installProgram(self, want.Hash); err != nil {
		return err
	}
	if err := want.write(b.home); err != nil {
		return err
	}
	return printJSON(s, bootstrapResult{want.Path, true})
}

// bootstrapResult is read by the host side.
type bootstrapResult struct {
	Program string `json:"program"`
	Done    bool   `json:"done"`
}

// lock serializes installations. Child processes inherit the lock: those of a
// killed bootstrap hold it until they exit.
func (b bootstrap) lock() (*os.File, error) {
	dir := filepath.Dir(markerPath(b.home))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("installing ralph: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".bootstrap.lock"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("installing ralph: %w", err)
	}
	for err = unix.EINTR; err == unix.EINTR; { //nolint:errorlint // system calls return bare numbers
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for another installation of ralph: %w", err), f.Close())
	}
	return f, nil
}

// intact reports whether the installed program is unchanged.
func (m marker) intact() bool {
	sum, err := hashFile(m.Path)
	return err == nil && sum == m.Hash && executable(m.Path) == nil
}

// installProgram installs the running program for all users or, without the
// permission to do so, for this user. It returns the program's path.
func (b bootstrap) installProgram(self, sum string) (string, error) {
	path := filepath.Join(b.bin, wire.Program)
	err := b.install(self, path, sum, false)
	if isPermission(err) {
		err = b.install(self, path, sum, true)
		if err != nil {
			path = filepath.Join(b.home, ".local", "bin", wire.Program)
			if errHome := b.install(self, path, sum, false); errHome != nil {
				return "", errors.Join(err, errHome)
			}
			return path, nil
		}
	}
	return path, err
}

// install copies the program to path, and links task to it.
func (b bootstrap) install(self, path, sum string, asRoot bool) error {
	if is, err := regularHash(path); err != nil || is != sum || executable(path) != nil {
		if err := b.copyTo(self, path, asRoot); err != nil {
			return err
		}
	}
	task := filepath.Join(filepath.Dir(path), "task")
	target, err := os.Readlink(task)
	if target == wire.Program || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // linked already, or an unrelated program of that name
	}
	if asRoot {
		return b.root.run("installing "+task, `ln -sfn "$1" "$2.ralph-new"; mv -fT "$2.ralph-new" "$2"`, wire.Program, task)
	}
	return link(wire.Program, task)
}

// regularHash returns the SHA-256 of a regular file, and "" for any other.
func regularHash(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("installing ralph: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", nil
	}
	return hashFile(path)
}

func (b bootstrap) copyTo(self, path string, asRoot bool) error {
	dir := filepath.Dir(path)
	if asRoot {
		return b.root.run("installing "+path, `mkdir -p "$1"; install -m 755 "$2" "$1/.ralph-new"; mv -f "$1/.ralph-new" "$3"`, dir, self, path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	stale, _ := filepath.Glob(filepath.Join(dir, ".ralph-*")) // of a killed installation
	for _, path := range stale {
		_ = os.Remove(path)
	}
	return copyProgram(self, path, 0o755)
}

// isPermission reports whether root could do what has failed.
func isPermission(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}
