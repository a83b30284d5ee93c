package guest

import (
	"archive/tar"
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

// runHostConfig puts the user's configuration of the agent, an archive on the
// standard input, into the home directory. What an earlier archive has brought
// and this one has not goes.
func runHostConfig(args []string) error {
	if len(args) != 0 {
		return errUsage
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the home directory: %w", err)
	}
	return putHostConfig(home, os.Stdin)
}

func putHostConfig(home string, archive io.Reader) (err error) {
	root, err := os.OpenRoot(home) // an agent can have put links there
	if err != nil {
		return fmt.Errorf("opening the home directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var earlier, names []string
	if list, err := root.ReadFile(hostConfigList); err == nil {
		_ = json.Unmarshal(list, &earlier) // an agent can have changed it: then nothing is removed
	}
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the configuration from the host: %w", err)
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return errUsage
		}
		if err := replace(root, header.Name, files, fs.FileMode(header.Mode).Perm()); err != nil {
			return fmt.Errorf("putting %s in place: %w", header.Name, err)
		}
		names = append(names, header.Name)
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
