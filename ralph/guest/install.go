package guest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"
)

// runInstall installs the running program in the shared volume: DIR. Each version has
// its own directory, so that running loops keep theirs. The final rename makes the
// installation atomic.
func runInstall(args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running program: %w", err)
	}
	sum, err := hashFile(self)
	if err != nil {
		return err
	}
	dir := filepath.Join(args[0], wire.Dir(sum))
	if err := installIn(filepath.Join(dir, wire.ReadableDir), self, 0o755); err != nil {
		return err
	}
	if err := installIn(dir, self, privateMode); err != nil {
		return err
	}
	bin := filepath.Join(args[0], "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	return link(filepath.Join("..", wire.Dir(sum), wire.Program), filepath.Join(bin, wire.Program))
}

// installIn installs a program, with the links by which it has other names.
func installIn(dir, program string, mode os.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	if err := copyProgram(program, filepath.Join(dir, wire.Program), mode); err != nil {
		return err
	}
	if err := link(wire.Program, filepath.Join(dir, "task")); err != nil {
		return err
	}
	return link(wire.Program, filepath.Join(dir, wire.SignProgram))
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the running program: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading the running program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// privateMode lets others execute a program, but not read it. The kernel then starts it as a process that they can
// neither trace nor read the environment of, even if it is theirs.
const privateMode = 0o711

func copyProgram(from, to string, mode os.FileMode) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("reading the running program: %w", err)
	}
	defer func() { _ = src.Close() }()
	tmp, err := os.CreateTemp(filepath.Dir(to), ".ralph-*")
	if err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = io.Copy(tmp, src)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", tmp.Name(), err)
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	return nil
}

// link creates or replaces a symbolic link atomically.
func link(target, path string) error {
	tmp := path + "." + rand.Text() // PIDs are not unique across containers
	if err := os.Symlink(target, tmp); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("installing ralph: %w", err)
	}
	return nil
}
