package agentconfig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// Staging is the directory on the host with the settings for one sandbox.
type Staging struct{ dir string }

// StagingOf returns the staging of a driver's sandbox.
func StagingOf(stateDir, driver, sandbox string) Staging {
	return Staging{scopes.Path(stateDir, sandbox, "hostconfig", driver)}
}

// StagingAt returns the staging whose [Staging.Shown] is dir, which a sandbox was created
// with, perhaps with another state directory. It is an error if the path is not that of a
// sandbox of that name: the content of the directory is removed.
func StagingAt(dir, driver, sandbox string) (Staging, error) {
	scope := filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	if s := StagingOf(filepath.Dir(filepath.Dir(scope)), driver, sandbox); filepath.IsAbs(dir) && s.Shown() == dir {
		return s, nil
	}
	return Staging{}, hint.Wrap(fmt.Errorf("unexpected directory of agent settings in sandbox %s: %q", sandbox, dir), "recreate the sandbox with --recreate")
}

// Shown is the directory that the sandbox mounts read-only.
func (s Staging) Shown() string { return filepath.Join(s.dir, "shown") }

// MakeShown creates the directory [Staging.Shown]. Every user of a sandbox can read it; other
// users of the host cannot, because its parent is private.
func MakeShown(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // regardless of the umask
	}
	if err != nil {
		return fmt.Errorf("creating the directory for agent settings: %w", err)
	}
	return nil
}

// Recreate creates the directory of a sandbox if it is missing: the sandbox cannot be started
// without it. Other paths are ignored.
func Recreate(dir, driver, sandbox string) error {
	if _, err := StagingAt(dir, driver, sandbox); err != nil {
		return nil //nolint:nilerr // not a staging directory
	}
	return MakeShown(dir)
}

// Lock waits for other commands that change or copy the settings.
func (s Staging) Lock(ctx context.Context) (unlock func(), err error) {
	if err := MakeShown(s.Shown()); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(s.dir, "lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}

// Put writes files to a new directory in [Staging.Shown], with their paths in the home
// directory, and returns its name. Everything else in Shown is removed: a program for
// microVMs let sandboxes write to read-only mounts.
func (s Staging) Put(f *Files) (name string, err error) {
	root, err := os.OpenRoot(s.Shown())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	before, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return "", err
	}
	for _, entry := range before {
		if err := root.RemoveAll(entry.Name()); err != nil {
			return "", err
		}
	}
	name = rand.Text()
	folders := map[string]bool{}
	if err := makeDir(root, name, folders); err != nil {
		return "", err
	}
	for _, one := range f.files {
		if err := putFile(root, path.Join(name, one.name), one, folders); err != nil {
			return "", err
		}
	}
	return name, nil
}

func putFile(root *os.Root, name string, one file, folders map[string]bool) error {
	if err := makeDir(root, path.Dir(name), folders); err != nil {
		return err
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(one.content)
	if err == nil {
		err = to.Chmod(readable(one.mode)) // regardless of the umask
	}
	return errors.Join(err, to.Close())
}

// readable returns the mode of a file that everyone can read, and run if its owner can.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// makeDir creates a directory and its parents, except for those in made.
func makeDir(root *os.Root, name string, made map[string]bool) error {
	if name == "." || made[name] {
		return nil
	}
	if err := makeDir(root, path.Dir(name), made); err != nil {
		return err
	}
	made[name] = true
	if err := root.Mkdir(name, 0o700); err != nil {
		return err
	}
	return root.Chmod(name, 0o755) // regardless of the umask
}

// Note returns the note of [Staging.WriteNote]; empty for none.
func (s Staging) Note() (string, error) {
	note, err := os.ReadFile(s.notePath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(note), err
}

// WriteNote saves a note, which the sandbox does not see.
func (s Staging) WriteNote(note string) error {
	return atomicwriter.WriteFile(s.notePath(), []byte(note), 0o600)
}

func (s Staging) notePath() string { return filepath.Join(s.dir, "note") }

// Remove removes the staging.
func (s Staging) Remove() error { return os.RemoveAll(s.dir) }
