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
)

// hostConfigList is the file, in the home directory, with the names of those
// that have come from the host.
const hostConfigList = ".ralph-host-config.json"

// runHostConfig copies the user's configuration of the agent, which is in the
// folder that args names, into the home directory. What was brought earlier and
// is not there any more goes.
func runHostConfig(args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the home directory: %w", err)
	}
	return putHostConfig(home, args[0])
}

func putHostConfig(home, dir string) (err error) {
	from, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the configuration from the host: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	root, err := os.OpenRoot(home) // an agent can have put links there
	if err != nil {
		return fmt.Errorf("opening the home directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var earlier, names []string
	if list, err := root.ReadFile(hostConfigList); err == nil {
		_ = json.Unmarshal(list, &earlier) // an agent can have changed it: then nothing is removed
	}
	err = fs.WalkDir(from.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		names = append(names, name)
		return copyFile(root, from, name)
	})
	if err != nil {
		return fmt.Errorf("copying the configuration from the host: %w", err)
	}
	for _, name := range earlier {
		if filepath.IsLocal(name) && !slices.Contains(names, name) {
			_ = root.Remove(name) // gone already, or something else by now
		}
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return root.WriteFile(hostConfigList, list, 0o600)
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
		return fmt.Errorf("putting %s in place: %w", name, err)
	}
	return nil
}

// replace writes a file at once, whatever is in its place.
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
