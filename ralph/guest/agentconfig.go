package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
)

// agentConfigList is the file, in the home directory, that lists the copied files.
const agentConfigList = ".ralph-host-config.json"

// runAgentConfig copies the user's agent settings, which are in the directory that args begin
// with, into the home directory, and becomes ralph with the arguments that follow. A file
// that was copied earlier and is not there any more is removed. If another command has
// replaced the directory, that one copies.
func runAgentConfig(args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the home directory: %w", err)
	}
	_, replaced := os.Stat(args[0])
	if _, err := os.Stat(filepath.Dir(args[0])); err != nil || !errors.Is(replaced, fs.ErrNotExist) {
		if err := copyAgentConfig(home, args[0]); err != nil {
			return hint.Wrap(fmt.Errorf("copying your agent settings into the sandbox: %w", err), "recreate the sandbox with --recreate, or pass --no-host-config")
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	return runExec(append([]string{self}, args[1:]...))
}

func copyAgentConfig(home, dir string) (err error) {
	from, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the agent settings: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	root, err := os.OpenRoot(home) // an agent may have created links there
	if err != nil {
		return fmt.Errorf("opening the home directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var earlier, names []string
	if list, err := root.ReadFile(agentConfigList); err == nil {
		_ = json.Unmarshal(list, &earlier) // damaged by an agent: nothing is removed
	}
	err = fs.WalkDir(from.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		names = append(names, name)
		return copyFile(root, from, name)
	})
	if err != nil {
		return fmt.Errorf("copying the agent settings: %w", err)
	}
	for _, name := range earlier {
		if filepath.IsLocal(name) && !slices.Contains(names, name) {
			_ = root.Remove(name)
		}
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return root.WriteFile(agentConfigList, list, 0o600)
}

func copyFile(to, from *os.Root, name string) (err error) {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := replace(to, name, f, info.Mode().Perm()&0o700); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	return nil
}

// replace writes a file atomically, replacing a link or directory.
func replace(root *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), ".ralph-new-"+path.Base(name))
	if err := root.RemoveAll(temp); err != nil {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return root.Rename(temp, name)
}
