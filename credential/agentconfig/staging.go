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
)

// Staging is a folder on the host in which configuration is laid out for one
// sandbox.
type Staging struct{ dir string }

// StagingOf returns that of a driver's sandbox, below the plugin's state folder.
func StagingOf(stateDir, driver, sandbox string) Staging {
	return Staging{filepath.Join(stateDir, "hostconfig", driver, sandbox)}
}

// StagingAt returns the one whose [Staging.Shown] is dir, which a sandbox was made
// with: somebody with another state folder may have made it. A folder that is not
// one of a sandbox of that name is refused, as what is in it is removed.
func StagingAt(dir, driver, sandbox string) (Staging, error) {
	at := filepath.Dir(dir)
	if s := StagingOf(filepath.Dir(filepath.Dir(filepath.Dir(at))), driver, sandbox); filepath.IsAbs(dir) && s.Shown() == dir {
		return s, nil
	}
	return Staging{}, hint.Wrap(fmt.Errorf("unexpected directory of agent settings in the sandbox %s: %q", sandbox, dir), "recreate the sandbox with --recreate")
}

// Shown is the folder that the sandbox sees, read-only. What is beside it is for
// the host alone.
func (s Staging) Shown() string { return filepath.Join(s.dir, "shown") }

// MakeShown makes a folder that [Staging.Shown] has named. Sandboxes whose user has
// another number on the host can read it. Other users of the host cannot, as it
// stands in one that is closed to them.
func MakeShown(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // whatever the umask
	}
	if err != nil {
		return fmt.Errorf("creating the directory for agent settings: %w", err)
	}
	return nil
}

// Restore makes the folder that a sandbox was made with again, if it is one for that
// and is gone: without it the sandbox could not be started.
func Restore(dir, driver, sandbox string) error {
	if _, err := StagingAt(dir, driver, sandbox); err != nil {
		return nil //nolint:nilerr // it is not ours to make
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

// Put lays files out in a new folder, below the names that they have in the home
// directory, and returns that folder's name in [Staging.Shown]. What was there
// before goes: a program for sandboxes was seen to let them write to what is
// mounted read-only, so nothing in it is relied upon.
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
	if err := makeFolder(root, name, folders); err != nil {
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
	if err := makeFolder(root, path.Dir(name), folders); err != nil {
		return err
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(one.content)
	if err == nil {
		err = to.Chmod(readable(one.mode)) // whatever the umask
	}
	return errors.Join(err, to.Close())
}

// readable makes a file readable by all users, and executable if it is for its owner.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// makeFolder makes a folder and those above it, unless made has them.
func makeFolder(root *os.Root, name string, made map[string]bool) error {
	if name == "." || made[name] {
		return nil
	}
	if err := makeFolder(root, path.Dir(name), made); err != nil {
		return err
	}
	made[name] = true
	if err := root.Mkdir(name, 0o700); err != nil {
		return err
	}
	return root.Chmod(name, 0o755) // whatever the umask
}

// Note returns what [Staging.WriteNote] has noted; empty if it has not.
func (s Staging) Note() (string, error) {
	note, err := os.ReadFile(s.notePath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(note), err
}

// WriteNote notes something for the host.
func (s Staging) WriteNote(note string) error {
	return atomicwriter.WriteFile(s.notePath(), []byte(note), 0o600)
}

func (s Staging) notePath() string { return filepath.Join(s.dir, "note") }

// Remove removes all of it.
func (s Staging) Remove() error { return os.RemoveAll(s.dir) }
