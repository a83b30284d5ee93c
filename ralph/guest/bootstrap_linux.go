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

// bootstrap installs ralph in a sandbox whose image knows nothing of it, for
// the image's user. Killed at any moment, it is begun again and comes to the
// same end.
type bootstrap struct {
	version string // of the running program
	home    string
	bin     string // where all users' programs are
	system  system
}

// runBootstrap installs: VERSION.
func runBootstrap(ctx context.Context, s streams, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	home, err := homeDir()
	if err != nil {
		return err
	}
	return bootstrap{version: args[0], home: home, bin: "/usr/local/bin", system: system{ctx: ctx}}.run(s)
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
	if b.system.lock, err = b.lock(); err != nil {
		return err
	}
	defer func() { _ = b.system.lock.Close() }()
	if old, err := readMarker(b.home); err == nil && old.Hash == want.Hash && inPlace(old) {
		return printJSON(s, outcome{old.Path, false})
	}
	// From here on, what is there is neither the old nor the new.
	if err := removeMarker(b.home); err != nil {
		return err
	}
	if want.Path, err = b.installProgram(self, want.Hash); err != nil {
		return err
	}
	if err := want.write(b.home); err != nil {
		return err
	}
	return printJSON(s, outcome{want.Path, true})
}

// outcome is what the host side reads.
type outcome struct {
	Program string `json:"program"`
	Done    bool   `json:"done"`
}

// lock makes others wait, as long as the file is open here or in a program
// that was started from here. So a killed bootstrap, whose programs go on, does
// not come in the way of the next one.
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

// inPlace reports whether what the marker speaks of is still there.
func inPlace(m marker) bool {
	sum, err := hashFile(m.Path)
	return err == nil && sum == m.Hash && executable(m.Path) == nil
}

// installProgram puts the running program where all users find programs, or
// else where this user does, and returns where that is.
func (b bootstrap) installProgram(self, sum string) (string, error) {
	path := filepath.Join(b.bin, wire.Program)
	err := b.place(self, path, sum, false)
	if isRefusal(err) {
		err = b.place(self, path, sum, true)
		if err != nil {
			path = filepath.Join(b.home, ".local", "bin", wire.Program)
			if errHome := b.place(self, path, sum, false); errHome != nil {
				return "", errors.Join(err, errHome)
			}
			return path, nil
		}
	}
	return path, err
}

// place makes path a copy of the program, and task beside it a link to it.
func (b bootstrap) place(self, path, sum string, asRoot bool) error {
	if is, err := regularHash(path); err != nil || is != sum || executable(path) != nil {
		if err := b.copyTo(self, path, asRoot); err != nil {
			return err
		}
		if is, err = regularHash(path); err != nil {
			return err
		}
		if is != sum {
			return fmt.Errorf("installing ralph: %s is not what was written. Is another program installing there?", path)
		}
	}
	task := filepath.Join(filepath.Dir(path), "task")
	target, err := os.Readlink(task)
	if target == wire.Program || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // there already, or somebody else's program of that name
	}
	if asRoot {
		return b.system.script("installing "+task, `ln -sfn "$1" "$2.ralph-new"; mv -fT "$2.ralph-new" "$2"`, wire.Program, task)
	}
	return link(wire.Program, task)
}

// regularHash is the SHA-256 of a file that is no link.
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
		return b.system.script("installing "+path, `mkdir -p "$1"; install -m 755 "$2" "$1/.ralph-new"; mv -f "$1/.ralph-new" "$3"`, dir, self, path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	// What a killed installation has left; another one is not at it now.
	if left, err := filepath.Glob(filepath.Join(dir, ".ralph-*")); err == nil {
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
	return copyProgram(self, path)
}

// isRefusal reports whether another user could do what has failed.
func isRefusal(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}
